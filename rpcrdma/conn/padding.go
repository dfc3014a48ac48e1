package conn

import (
	"errors"
	"math/bits"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Padding of the RDMA_MSGP messages that we send (RFC 5666 §3.9), in bytes.
const (
	// PadAlign is the alignment of opaque data unless the peer asks for another, and the
	// alignment that we recommend to peers: the size of a disk sector.
	PadAlign = 512
	// MaxPadAlign is the largest alignment that we accept or use.
	MaxPadAlign = 64 << 10
	// PadThresh is the least rdma_thresh. Longer items are padded.
	PadThresh = 512
	// padHeaderSize is how much longer the header of RDMA_MSGP is than that of RDMA_MSG.
	padHeaderSize = 8
)

var (
	// ErrPadding means that the padding parameters of a message are invalid.
	ErrPadding = errors.New("conn: padding alignment is not a power of two, or too large")
	// ErrPaddedChunk means that a padded message has read chunks. Padding makes the
	// positions of read chunks ambiguous.
	ErrPaddedChunk = errors.New("conn: padding and read chunks in one message")
)

// padding is the state of RDMA_MSGP on a connection. Both roles use it.
type padding struct {
	sends bool   // extensions.msgp is on
	takes bool   // it is or was on: padded messages of the peer may still arrive
	told  bool   // the peer announced align (CCP)
	align uint32 // the peer's, if told; 0 means none

	pieces []chunk.Piece // storage

	// Numbers of padded messages.
	sent, received uint64
}

// set applies the settings. When the extension is turned off, we stop sending padded
// messages but still accept them, because no message makes the peer stop.
func (p *padding) set(s *settings.Settings) {
	p.sends = s.Extensions.Has(settings.ExtMSGP)
	p.takes = p.takes || p.sends
}

// tell stores the alignment that the peer asked for. An invalid alignment, or one that
// changes nothing in XDR, counts as none.
func (p *padding) tell(align uint32) {
	p.told, p.align = true, 0
	if bits.OnesCount32(align) == 1 && align > xdr.Unit && align <= MaxPadAlign {
		p.align = align
	}
}

// use returns the alignment to pad to, in bytes. 0 means no padding.
func (p *padding) use() uint32 {
	switch {
	case !p.sends:
		return 0
	case p.told:
		return p.align
	}
	return PadAlign
}

// check returns the padding of a message with header h, or an error if the padding is
// invalid or padded messages are not accepted. The message follows h on the wire.
func (p *padding) check(h *Header) (oncrpc.Padding, error) {
	switch {
	case !p.takes:
		return oncrpc.Padding{}, ErrDisabled
	case bits.OnesCount32(h.Align) != 1 || h.Align > MaxPadAlign:
		return oncrpc.Padding{}, ErrPadding
	case len(h.Reads) > 0:
		return oncrpc.Padding{}, ErrPaddedChunk
	}
	p.received++
	return oncrpc.Padding{Align: h.Align, Thresh: h.Thresh, Base: uint32(h.Size())}, nil
}

// plan returns the padding for a message of these pieces. header is the size of its header
// without padding, limit the largest Send, both in bytes. ok is false if the message goes
// out without padding: padding is off, there is nothing to align, everything is aligned
// already, or the padded message does not fit.
//
// A receiver cannot tell items from other opaque data. So the threshold is larger than any
// run of the stream, and applies to items alone. No item has exactly the length of the
// threshold: RFC 5666 §3.9 lets the sender pad "at or above" it, but the receiver skip
// padding where a length "exceeds" it.
func (p *padding) plan(pieces []chunk.Piece, header, limit int) (pad oncrpc.Padding, ok bool) {
	pad = oncrpc.Padding{Align: p.use(), Thresh: PadThresh, Base: uint32(header)}
	if pad.Align == 0 {
		return pad, false
	}
	for i := range pieces {
		if pc := &pieces[i]; pc.From == chunk.Stream {
			pad.Thresh = max(pad.Thresh, uint32(pc.Len)+1)
		}
	}
	for hasItem(pieces, pad.Thresh) {
		pad.Thresh++
	}
	n := chunk.Length(pieces)
	if paddedLength(pieces, pad) == n {
		return pad, false
	}
	pad.Base += padHeaderSize
	return pad, int(pad.Base)+paddedLength(pieces, pad) <= limit
}

// hasItem reports whether pieces contains an item of n bytes.
func hasItem(pieces []chunk.Piece, n uint32) bool {
	return slices.ContainsFunc(pieces, func(p chunk.Piece) bool { return p.From >= 0 && uint32(p.Len) == n })
}

// paddedLength returns the length of pieces with their padding, in bytes.
func paddedLength(pieces []chunk.Piece, pad oncrpc.Padding) (n int) {
	for i := range pieces {
		if pieces[i].From >= 0 {
			n += pad.Before(n, pieces[i].Len)
		}
		n += pieces[i].Len
	}
	return n
}

// appendPadded appends pieces with their padding to dst.
func appendPadded(dst, pieces []chunk.Piece, pad oncrpc.Padding) []chunk.Piece {
	off := 0
	for _, pc := range pieces {
		if pc.From >= 0 {
			if n := pad.Before(off, pc.Len); n > 0 {
				dst = append(dst, chunk.Piece{From: chunk.Zeros, Len: n})
				off += n
			}
		}
		dst = append(dst, pc)
		off += pc.Len
	}
	return dst
}

// Padding describes the use of RDMA_MSGP on a connection.
type Padding struct {
	// Align is the alignment to which opaque data in our messages is padded, in bytes. 0
	// means no padding.
	Align uint32
	// Taken means that padded messages of the peer are accepted.
	Taken bool
	// Sent and Received count padded messages.
	Sent, Received uint64
}

func (p *padding) state() Padding {
	return Padding{Align: p.use(), Taken: p.takes, Sent: p.sent, Received: p.received}
}
