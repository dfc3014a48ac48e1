package rpcrdma1

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Errors of Decode. Each needs its own answer (RFC 8166 §4.5).
var (
	// ErrShort: too short for the prefix, so there is no XID to answer. The header is
	// unchanged. Drop the message.
	ErrShort = errors.New("rpcrdma1: message shorter than the header prefix")
	// ErrVersion: rdma_vers is not 1. XID, Version, Credits and Proc are as received. Proc
	// has its meaning in this version. Answer ERR_VERS.
	ErrVersion = errors.New("rpcrdma1: unsupported version")
	// ErrMalformed: the prefix fields are as received, the rest is invalid. Answer
	// ERR_CHUNK, but never to an Error header. Version 2 has the same error.
	ErrMalformed = errors.New("rpcrdma: malformed header")
)

// The kinds of malformed headers. Each is an ErrMalformed.
var (
	errTruncated    = malformed("truncated")
	errPresent      = malformed("list word is neither 0 nor 1")
	errProc         = malformed("unknown header type")
	errCode         = malformed("unknown error code")
	errReadSegments = malformed("too many read segments")
	errWriteChunks  = malformed("too many write chunks")
	errSegments     = malformed("too many segments in a chunk")
)

func malformed(what string) error {
	return fmt.Errorf("%w: %s", ErrMalformed, what)
}

// Decode decodes the header at the start of b and returns its length: the RPC message, if
// any, is b[n:]. It replaces all of h's fields and reuses the storage of its slices. Once
// that is large enough it does not allocate. After an error the lists are empty. The header
// does not refer to b.
func (h *Header) Decode(b []byte) (n int, err error) {
	p, ok := DecodePrefix(b)
	if !ok {
		return 0, ErrShort
	}
	h.Reset(p)
	if p.Version != Version {
		return 0, ErrVersion
	}
	d := xdr.NewDecoder(b[PrefixSize:])
	if err := h.decodeBody(&d); err != nil {
		h.Reset(p)
		return 0, err
	}
	return PrefixSize + d.Offset(), nil
}

// Reset clears h except for prefix p, and keeps the storage of its lists.
func (h *Header) Reset(p Prefix) {
	*h = Header{
		XID:     p.XID,
		Version: p.Version,
		Credits: p.Credits,
		Proc:    p.Proc,
		Reads:   h.Reads[:0],
		Writes:  h.Writes[:0],
		Reply:   h.Reply[:0],
	}
}

func (h *Header) decodeBody(d *xdr.Decoder) error {
	switch h.Proc {
	case Msg, NoMsg:
		return h.DecodeLists(d)
	case MsgP:
		h.Align = d.Uint32()
		h.Thresh = d.Uint32()
		return h.DecodeLists(d)
	case Done:
		return nil
	case Error:
		return h.decodeError(d)
	default:
		return errProc
	}
}

func (h *Header) decodeError(d *xdr.Decoder) error {
	h.Err = ErrCode(d.Uint32())
	switch h.Err {
	case ErrVers:
		h.Low = d.Uint32()
		h.High = d.Uint32()
	case ErrChunk:
	default:
		if d.Err() == nil {
			return errCode
		}
	}
	return reason(d.Err())
}

// DecodeRefusal decodes an ERR_VERS of any version. Its sender may put any version that it
// speaks into rdma_vers (RFC 5666 §4.2), and what follows is the same in all versions. ok is
// false for all other messages. It replaces all of h's fields.
func (h *Header) DecodeRefusal(b []byte) (ok bool) {
	p, ok := DecodePrefix(b)
	if !ok || p.Proc != Error {
		return false
	}
	h.Reset(p)
	d := xdr.NewDecoder(b[PrefixSize:])
	return h.decodeError(&d) == nil && h.Err == ErrVers
}

// DecodeLists decodes the read list, the write list and the reply chunk, which are the same
// in version 2. It reuses the storage of the lists, which must be empty.
func (h *Header) DecodeLists(d *xdr.Decoder) error {
	if err := h.decodeReads(d); err != nil {
		return err
	}
	if err := h.decodeWrites(d); err != nil {
		return err
	}
	if h.HasReply = d.Bool(); h.HasReply {
		h.Reply = DecodeSegments(d, h.Reply)
	}
	return reason(d.Err())
}

func (h *Header) decodeReads(d *xdr.Decoder) error {
	for d.Bool() {
		if len(h.Reads) == MaxReadSegments {
			return errReadSegments
		}
		h.Reads = append(h.Reads, ReadSegment{Position: d.Uint32(), Segment: decodeSegment(d)})
	}
	return reason(d.Err())
}

func (h *Header) decodeWrites(d *xdr.Decoder) error {
	for d.Bool() {
		if len(h.Writes) == MaxWriteChunks {
			return errWriteChunks
		}
		c := xdr.Extend(&h.Writes)
		*c = DecodeSegments(d, *c)
	}
	return reason(d.Err())
}

// DecodeSegments replaces list by an array of segments. It checks the count against the
// limit and the available bytes before the list grows.
func DecodeSegments(d *xdr.Decoder, list []Segment) []Segment {
	list = list[:0]
	for range d.Count(MaxSegments, segmentSize) {
		list = append(list, decodeSegment(d))
	}
	return list
}

func decodeSegment(d *xdr.Decoder) Segment {
	return Segment{Handle: d.Uint32(), Length: d.Uint32(), Offset: d.Uint64()}
}

// reason converts an XDR error to an error of a header.
func reason(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, xdr.ErrBool):
		return errPresent
	case errors.Is(err, xdr.ErrLimit):
		return errSegments
	default:
		return errTruncated
	}
}
