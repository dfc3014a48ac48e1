package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Header is a transport header of any version: in memory it has version 2's
// fields, which are version 1's and more; Version says how it looks on the wire.
type Header struct {
	rpcrdma2.Header
}

// Size is the number of bytes that Append appends.
func (h *Header) Size() int { return versionOf(h.Version).size(h) }

// Append appends the encoded header. It allocates only when dst is too small.
func (h *Header) Append(dst []byte) []byte { return versionOf(h.Version).append(h, dst) }

// clear forgets everything and keeps the storage of the lists.
func (h *Header) clear() {
	h.Header = rpcrdma2.Header{Header: rpcrdma1.Header{Reads: h.Reads[:0], Writes: h.Writes[:0], Reply: h.Reply[:0]}}
}

// decode decodes the header at the start of b, if it is of one of the versions
// in spoken, and gives its length. Errors are those of rpcrdma1.Header.Decode,
// for every version.
func (h *Header) decode(b []byte, spoken versions) (n int, err error) {
	p, _ := rpcrdma1.DecodePrefix(b)
	if spoken.has(p.Version) {
		return versionOf(p.Version).decode(h, b)
	}
	// It is too short, or of another version.
	return spoken.any().decode(h, b)
}
