package rpcrdma2

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Size returns the number of bytes that Append appends.
func (h *Header) Size() int {
	switch h.Proc {
	case Error:
		return rpcrdma1.PrefixSize + h.ErrorSize()
	case Optional:
		return OptionalSize(len(h.Info))
	default:
		return rpcrdma1.PrefixSize + wordSize + h.ListsSize()
	}
}

// OptionalSize returns the size of an Optional header whose body has n bytes.
func OptionalSize(n int) int { return rpcrdma1.PrefixSize + 2*wordSize + xdr.OpaqueSize(n) }

// Append appends the encoded header, with the Version in h. Fields that the header type does
// not have are omitted. It allocates only when dst is too small.
func (h *Header) Append(dst []byte) []byte {
	dst = h.AppendPrefix(dst)
	switch h.Proc {
	case Error:
		return h.AppendError(dst)
	case Optional:
		dst = xdr.AppendUint32(dst, uint32(h.Direction))
		dst = xdr.AppendUint32(dst, uint32(h.Option))
		return xdr.AppendOpaque(dst, h.Info)
	default:
		dst = xdr.AppendUint32(dst, uint32(h.Direction))
		return h.AppendLists(dst)
	}
}
