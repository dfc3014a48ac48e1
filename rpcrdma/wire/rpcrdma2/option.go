package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// OptType is an optional operation (rdma_opttype).
type OptType uint32

// The optional operations of the extensions.
const (
	OptInit     OptType = 1 // characteristics at the start
	OptRequest  OptType = 2 // asks for characteristics to be changed
	OptRespond  OptType = 3 // answers OptRequest
	OptUpdate   OptType = 4 // announces a change
	OptXmtReq   OptType = 5 // first transmission of a request
	OptXmtResp  OptType = 6 // first transmission of a response
	OptXmtCont  OptType = 7 // each further transmission of either
	OptXmtError OptType = 8 // a transmission group was refused
)

// Body is the body of an optional operation (rdma_optinfo).
type Body interface {
	// Type returns the operation.
	Type() OptType
	// Append appends the encoded body. It allocates only when dst is too small.
	Append(dst []byte) []byte
	// Decode replaces the body with the one in b, which must be all of b. It reuses the
	// storage of its lists. Once that is large enough it does not allocate. Errors are
	// ErrMalformed; the body is then invalid.
	Decode(b []byte) error
}

// finish returns an error if a decoded body is invalid.
func finish(d *xdr.Decoder) error {
	if d.Err() == nil && d.Len() > 0 {
		return errTrailing
	}
	return reason(d.Err())
}

// decodeWords replaces words by an array of at most limit.
func decodeWords(d *xdr.Decoder, words []uint32, limit int) []uint32 {
	words = words[:0]
	for range d.Count(limit, wordSize) {
		words = append(words, d.Uint32())
	}
	return words
}

func appendWords(dst []byte, words []uint32) []byte {
	return xdr.AppendUint32s(xdr.AppendUint32(dst, uint32(len(words))), words...)
}
