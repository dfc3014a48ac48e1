package rpcrdma2

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ErrMalformed is the error of version 1: the prefix fields are as received, the rest is
// invalid. Answer BAD_HEADER, but never to an Error header.
var ErrMalformed = rpcrdma1.ErrMalformed

// The kinds of malformed headers. Each is an ErrMalformed.
var (
	errTruncated = malformed("truncated")
	errTrailing  = malformed("bytes after the operation's body")
	errProc      = malformed("unknown header type")
	errCode      = malformed("unknown error code")
	errDirection = malformed("direction is neither call nor reply")
	errPresent   = malformed("word of an optional part is neither 0 nor 1")
	errCount     = malformed("too many elements in a list")
	errLocation  = malformed("unknown place of an item")
	errValue     = malformed("value out of range")
)

func malformed(what string) error {
	return fmt.Errorf("%w: %s", ErrMalformed, what)
}

// Decode decodes the header at the start of b and returns its length: the RPC message or
// part of it, if any, is b[n:]. Errors are those of version 1. It replaces all of h's
// fields and reuses the storage of its slices. Once that is large enough it does not
// allocate. After an error only the prefix is set.
func (h *Header) Decode(b []byte) (n int, err error) {
	p, ok := rpcrdma1.DecodePrefix(b)
	if !ok {
		return 0, rpcrdma1.ErrShort
	}
	h.Reset(p)
	if p.Version != Version {
		return 0, rpcrdma1.ErrVersion
	}
	d := xdr.NewDecoder(b[rpcrdma1.PrefixSize:]) //nolint:gosec // DecodePrefix has checked the length
	if err := h.decodeBody(&d); err != nil {
		h.Reset(p)
		return 0, err
	}
	return rpcrdma1.PrefixSize + d.Offset(), nil
}

// Reset makes h a header of prefix p without anything else, and keeps the
// storage of its lists.
func (h *Header) Reset(p rpcrdma1.Prefix) {
	h.Header.Reset(p)
	h.Direction, h.Option, h.Info = 0, 0, nil
}

func (h *Header) decodeBody(d *xdr.Decoder) error {
	switch h.Proc {
	case Msg, NoMsg:
		if h.Direction = decodeDirection(d); d.Err() != nil {
			return reason(d.Err())
		}
		return h.DecodeLists(d)
	case Error:
		return h.decodeError(d)
	case Optional:
		h.Direction = decodeDirection(d)
		h.Option = OptType(d.Uint32())
		h.Info = d.Opaque(MaxInfo)
		return reason(d.Err())
	default:
		return errProc
	}
}

func decodeDirection(d *xdr.Decoder) Direction {
	dir := Direction(d.Uint32())
	if dir > Reply {
		d.Fail(errDirection)
	}
	return dir
}

// DirectionOf reads the direction of a message whose header Decode refuses. The direction
// follows the prefix. known is false for types that have none, and for an invalid direction.
func DirectionOf(b []byte) (dir Direction, known bool) {
	switch p, _ := rpcrdma1.DecodePrefix(b); p.Proc {
	case Msg, NoMsg, Optional:
		d := xdr.NewDecoder(b)
		d.Fixed(rpcrdma1.PrefixSize)
		dir = decodeDirection(&d)
		return dir, d.Err() == nil
	}
	return 0, false
}

func (h *Header) decodeError(d *xdr.Decoder) error {
	h.Err = rpcrdma1.ErrCode(d.Uint32())
	switch h.Err {
	case ErrVers:
		h.Low = d.Uint32()
		h.High = d.Uint32()
	case ErrBadHeader, ErrInvalOption:
	default:
		d.Fail(errCode)
	}
	return reason(d.Err())
}

// reason converts an XDR error to an error of a header.
func reason(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrMalformed):
		return err
	case errors.Is(err, xdr.ErrBool):
		return errPresent
	case errors.Is(err, xdr.ErrLimit):
		return errCount
	default:
		return errTruncated
	}
}
