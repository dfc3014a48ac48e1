// Package nfstest is NFS for tests of announced limits: a client that uses every limit of a
// server to the byte, and a server that announces more than a gateway between it and a client
// can carry. Both use go-xdr's types, and share nothing with rdmad's bindings. Files is a plain
// client of files, for other tests and for the demonstration.
package nfstest

import "encoding/binary"

// Fill fills b with the content of a Server's file from an offset on.
func Fill(b []byte, offset uint64) {
	var word [8]byte
	for i := 0; i < len(b); {
		at := offset + uint64(i)
		binary.BigEndian.PutUint64(word[:], (at/8+1)*0x9e3779b97f4a7c15)
		i += copy(b[i:], word[at%8:])
	}
}

// Data returns n bytes of such a file.
func Data(offset uint64, n int) []byte {
	b := make([]byte, n)
	Fill(b, offset)
	return b
}
