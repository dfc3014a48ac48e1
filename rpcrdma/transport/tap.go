package transport

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/verbs"
)

// Operation is one operation of a connection, for an observer: a Send received or
// about to be made, an RDMA Write about to be made, or an RDMA Read that completed. It
// belongs to the connection and is valid only during the call of Observe.
type Operation struct {
	Op verbs.Opcode // OpSend, OpSendInvalidate, OpRDMAWrite, OpRDMARead
	// In: the bytes went from the peer to us.
	In bool
	// RKey is the peer's key that is read, written or invalidated; of a
	// Send With Invalidate received, ours.
	RKey uint32
	// Addr is the peer's address that is read or written.
	Addr   uint64
	Length int      // bytes
	Data   [][]byte // the bytes, in pieces
}

// Observer looks at what connections do. Observe is called with the
// connection's lock held, in the order in which things happened: it must not
// wait, nor call the connection.
type Observer interface {
	Observe(*Operation)
}

// Tap is where an Observer looks at one connection. While there is none, an
// event costs the connection one atomic load. The zero Tap is ready.
type Tap struct{ observer atomic.Pointer[Observer] }

// Set puts an observer there in place of the one before; nil is none. An
// Observe of the one before may still be running when it returns.
func (t *Tap) Set(o Observer) {
	if o == nil {
		t.observer.Store(nil)
		return
	}
	t.observer.Store(&o)
}

// Observe shows an operation to the observer, if there is one. It is for
// transports other than this one.
func (t *Tap) Observe(o *Operation) {
	if to := t.observer.Load(); to != nil {
		(*to).Observe(o)
	}
}

// observeReceive shows a Send that came in.
func (l *link) observeReceive(o Observer, msg []byte, inv conn.Invalidation) {
	w := &l.seen
	*w = Operation{Op: verbs.OpSend, In: true, Length: len(msg), Data: append(w.Data[:0], msg)}
	if inv.Did {
		w.Op, w.RKey = verbs.OpSendInvalidate, inv.RKey
	}
	l.show(o)
}

// observePosted shows the Sends and RDMA Writes among requests that are about
// to be posted.
func (l *link) observePosted(o Observer, wrs []verbs.SendWR) {
	for i := range wrs {
		switch wrs[i].Op {
		case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpRDMAWrite:
			l.observeRequest(o, &wrs[i])
		}
	}
}

// observeReads shows the RDMA Reads among requests that have completed: their
// data is there now.
func (l *link) observeReads(o Observer, wrs []verbs.SendWR) {
	for i := range wrs {
		if wrs[i].Op == verbs.OpRDMARead {
			l.observeRequest(o, &wrs[i])
		}
	}
}

func (l *link) observeRequest(o Observer, wr *verbs.SendWR) {
	w := &l.seen
	*w = Operation{Op: wr.Op, In: wr.Op == verbs.OpRDMARead, RKey: wr.RKey, Addr: wr.RemoteAddr, Data: w.Data[:0]}
	if wr.Op == verbs.OpSendInvalidate {
		w.RKey = wr.InvalidateRKey
	}
	for _, s := range wr.SGL {
		w.Data = append(w.Data, s.MR.Bytes()[s.Offset:s.Offset+s.Length])
		w.Length += s.Length
	}
	l.show(o)
}

// show hands what was seen over, and keeps no memory of it.
func (l *link) show(o Observer) {
	o.Observe(&l.seen)
	clear(l.seen.Data)
}
