// Package nfstest is NFS for tests that take a server at its word: a client
// that uses every limit which a server announces to the byte, and a server that
// announces more than anybody between it and a client carries. Both are made of
// go-xdr's types, and share nothing with rdmad's bindings. Files is a plain client
// of files, for tests of other things and for the demonstration.
package nfstest

import "encoding/binary"

// Fill makes b what a file of a Server has from an offset on.
func Fill(b []byte, offset uint64) {
	var word [8]byte
	for i := 0; i < len(b); {
		at := offset + uint64(i)
		binary.BigEndian.PutUint64(word[:], (at/8+1)*0x9e3779b97f4a7c15)
		i += copy(b[i:], word[at%8:])
	}
}

// Data is n bytes of such a file.
func Data(offset uint64, n int) []byte {
	b := make([]byte, n)
	Fill(b, offset)
	return b
}
