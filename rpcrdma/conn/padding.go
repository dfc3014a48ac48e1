package conn

import (
	"errors"
	"math/bits"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Padding of our messages that are RDMA_MSGP (RFC 5666 §3.9), in bytes.
const (
	// PadAlign is the alignment of opaque data, unless a peer asked for
	// another one, and what we recommend to peers: a disk's sector.
	PadAlign = 512
	// MaxPadAlign is the largest alignment that is taken or used.
	MaxPadAlign = 64 << 10
	// PadThresh is the least rdma_thresh: longer items are padded.
	PadThresh = 512
	// padHeaderSize is what RDMA_MSGP has in its header beyond RDMA_MSG.
	padHeaderSize = 8
)

var (
	// ErrPadding means that a message's padding parameters make no sense.
	ErrPadding = errors.New("conn: padding to no power of two, or to too large a one")
	// ErrPaddedChunk means that a padded message has read chunks, whose
	// positions padding makes ambiguous.
	ErrPaddedChunk = errors.New("conn: padding and read chunks in one message")
)

// padding is the use of RDMA_MSGP on a connection, by either role.
type padding struct {
	sends bool   // extensions.msgp is on
	takes bool   // it is, or was: the peer may have padded messages on their way
	told  bool   // the peer told align (CCP)
	align uint32 // the peer's, when told; 0 is none

	pieces []chunk.Piece // storage

	// Messages with padding, sent and received.
	sent, received uint64
}

// set takes the settings. Turned off, padded messages are no longer sent, but
// still taken: nothing tells the peer to stop.
func (p *padding) set(s *Settings) {
	p.sends = s.Extensions.Has(ExtMSGP)
	p.takes = p.takes || p.sends
}

// tell takes the alignment that the peer asked for. One that makes no sense,
// or changes nothing in XDR, is none.
func (p *padding) tell(align uint32) {
	p.told, p.align = true, 0
	if bits.OnesCount32(align) == 1 && align > xdr.Unit && align <= MaxPadAlign {
		p.align = align
	}
}

// use is the alignment to pad to; 0 is not to pad.
func (p *padding) use() uint32 {
	switch {
	case !p.sends:
		return 0
	case p.told:
		return p.align
	}
	return PadAlign
}

// checkPadding checks a padded message's header.
func checkPadding(h *Header) error {
	switch {
	case bits.OnesCount32(h.Align) != 1 || h.Align > MaxPadAlign:
		return ErrPadding
	case len(h.Reads) > 0:
		return ErrPaddedChunk
	}
	return nil
}

// check is checkPadding where such a message is taken at all. The message
// follows h on the wire.
func (p *padding) check(h *Header) (oncrpc.Padding, error) {
	if !p.takes {
		return oncrpc.Padding{}, ErrDisabled
	}
	if err := checkPadding(h); err != nil {
		return oncrpc.Padding{}, err
	}
	p.received++
	return oncrpc.Padding{Align: h.Align, Thresh: h.Thresh, Base: uint32(h.Size())}, nil
}

// plan says with what padding a message of these pieces, whose header has
// header bytes without it, goes out in a Send of at most limit bytes. ok is
// false when there is to be none: it is off, nothing is to be aligned or is
// not already, or it does not fit.
//
// A receiver can't tell items from other opaques. The threshold lies above
// what the runs of the stream could hold, so that it applies to items alone. No
// item is as long as it: RFC 5666 §3.9 has the sender pad "at or above" it, and the
// receiver skip padding where a length "exceeds" it.
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
	n := piecesLength(pieces)
	if paddedLength(pieces, pad) == n {
		return pad, false
	}
	pad.Base += padHeaderSize
	return pad, int(pad.Base)+paddedLength(pieces, pad) <= limit
}

// hasItem says whether there is an item of n bytes among pieces.
func hasItem(pieces []chunk.Piece, n uint32) bool {
	for i := range pieces {
		if pieces[i].From >= 0 && uint32(pieces[i].Len) == n {
			return true
		}
	}
	return false
}

// paddedLength is the number of bytes of pieces with their padding.
func paddedLength(pieces []chunk.Piece, pad oncrpc.Padding) (n int) {
	for i := range pieces {
		if pieces[i].From >= 0 {
			n += pad.Before(n, pieces[i].Len)
		}
		n += pieces[i].Len
	}
	return n
}

// appendPadded appends pieces with their padding.
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

func piecesLength(pieces []chunk.Piece) (n int) {
	for i := range pieces {
		n += pieces[i].Len
	}
	return n
}

// Padding is what is in force about RDMA_MSGP.
type Padding struct {
	// Align is the alignment, in bytes, that opaque data in our messages is
	// padded to; 0 is no padding.
	Align uint32
	// Taken: padded messages of the peer are taken.
	Taken bool
	// Sent and Received count padded messages.
	Sent, Received uint64
}

func (p *padding) state() Padding {
	return Padding{Align: p.use(), Taken: p.takes, Sent: p.sent, Received: p.received}
}
