package ulb

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Limits are the largest values that a gateway lets a client and a server announce to each
// other, according to what it can forward. 0 means no limit. Values in bodies that
// RPCSEC_GSS protects are never changed.
type Limits struct {
	// Data limits one READ, WRITE or listing, in bytes: in arguments what the caller
	// accepts, in results what the server announces (rtmax, wtmax and similar in FSINFO;
	// MAXREAD and MAXWRITE).
	Data uint32
	// Message limits the RPC messages with header of a session's calls and replies, in
	// bytes. Operations limits the operations of a COMPOUND.
	Message, Operations uint32
	// Back returns the largest call and reply on a session's back channel, as RPC messages,
	// in bytes. It is called each time. nil means no limit.
	Back func() (call, reply uint32)
}

// of returns the limit for what a tag marks, or 0 for none.
func (l *Limits) of(tag walk.Tag, reply bool) uint32 {
	switch tag {
	case Expect:
		if reply {
			return 0 // a mark
		}
		return l.Data
	case Count, Data, DataLow:
		return l.Data
	case Message:
		return l.Message
	case Operations:
		return l.Operations
	case BackCall, BackReply:
		return l.back(tag)
	}
	return 0
}

func (l *Limits) back(tag walk.Tag) uint32 {
	if l.Back == nil {
		return 0
	}
	call, reply := l.Back()
	if tag == BackCall {
		return call
	}
	return reply
}

// over is the limit that a value exceeds.
type over struct {
	high  uint32 // upper word of a value whose lower word comes next
	limit uint32
	long  bool // a 64-bit value
}

// hold compares the value that the walk reports with its limit. It reports whether the
// value exceeds it.
func (p *Plan) hold(ev *walk.Event) bool {
	if p.Limits == nil || p.guarded != bare {
		return false
	}
	if ev.Tag == DataHigh {
		p.over.high = ev.Value
		return false
	}
	long := ev.Tag == DataLow
	limit := p.Limits.of(ev.Tag, p.reply)
	if limit == 0 || (ev.Value <= limit && (!long || p.over.high == 0)) {
		return false
	}
	p.over.limit, p.over.long = limit, long
	ev.Value = limit
	return true
}

// Lower replaces the value at the end of done with the limit. done is all bytes of the body
// up to OverLimit, or at least the last eight of them.
func (p *Plan) Lower(done []byte) {
	n := len(done)
	if p.over.long {
		binary.BigEndian.PutUint64(done[n-2*xdr.Unit:], uint64(p.over.limit))
		return
	}
	binary.BigEndian.PutUint32(done[n-xdr.Unit:], p.over.limit)
}

// Told reports whether the reply to the call may contain limits.
func (p *Plan) Told() bool { return p.told && p.guarded == bare }
