package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Header is a transport header of any version. In memory it always has the fields of
// version 2, which include those of version 1. Its Version selects the encoding.
type Header struct {
	rpcrdma2.Header
}

// Size is the number of bytes that Append appends.
func (h *Header) Size() int { return versionOf(h.Version).size(h) }

// Append appends the encoded header to dst. It allocates only when dst is too small.
func (h *Header) Append(dst []byte) []byte { return versionOf(h.Version).append(h, dst) }
