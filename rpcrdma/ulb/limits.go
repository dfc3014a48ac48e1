package ulb

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Limits are the largest numbers that somebody in the middle lets a client and
// a server tell each other about what they take: what it can carry. 0 lets a
// number be. Numbers in bodies that RPCSEC_GSS protects are never changed.
type Limits struct {
	// Data is the most bytes of one READ, WRITE or listing: in arguments what
	// the caller takes at most, in results what the server says of itself
	// (rtmax, wtmax and their like in FSINFO; MAXREAD and MAXWRITE).
	Data uint32
	// Message is the most bytes of an RPC message with its header, of a
	// session's calls and replies; Operations is the most operations of a
	// COMPOUND.
	Message, Operations uint32
	// Back gives the most bytes of a call and of a reply on a session's back
	// channel, as RPC messages. It is asked each time; nil lets them be.
	Back func() (call, reply uint32)
}

// of is the limit for what a tag marks, 0 for none.
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

// over is a limit that a number is over.
type over struct {
	high  uint32 // upper word of a number of which the lower comes next
	limit uint32
	long  bool // a number of 64 bits
}

// hold holds the number that the walk reports to its limit. It is true when it
// was over it.
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

// Lower writes the limit in place of the number over it with which done ends:
// all bytes of the body that were done at OverLimit, or the last eight of them.
func (p *Plan) Lower(done []byte) {
	n := len(done)
	if p.over.long {
		binary.BigEndian.PutUint64(done[n-2*xdr.Unit:], uint64(p.over.limit))
		return
	}
	binary.BigEndian.PutUint32(done[n-xdr.Unit:], p.over.limit)
}

// Told says whether the reply to the call that was walked may tell limits.
func (p *Plan) Told() bool { return p.told && p.guarded == bare }
