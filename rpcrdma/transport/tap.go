package transport

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/verbs"
)

// Operation is one operation of a connection, for an observer: a received Send, a Send or
// RDMA Write about to be posted, or an RDMA Read that completed. The connection owns it. It
// is valid only during the call of Observe.
type Operation struct {
	Op verbs.Opcode // OpSend, OpSendInvalidate, OpRDMAWrite, OpRDMARead
	// In means that the bytes went from the peer to us.
	In bool
	// RKey is the peer's key that is read, written or invalidated. For a received Send With
	// Invalidate it is our key.
	RKey uint32
	// Addr is the peer's address that is read or written.
	Addr   uint64
	Length int      // in bytes
	Data   [][]byte // the bytes, in pieces
}

// Observer watches connections. Observe is called with the connection's lock held, in the
// order in which things happen. It must not wait, nor call the connection.
type Observer interface {
	Observe(*Operation)
}

// Tap lets an Observer watch one connection. Without an Observer, an event costs one atomic
// load. The zero Tap is ready for use.
type Tap struct{ observer atomic.Pointer[Observer] }

// Set replaces the observer. nil removes it. An Observe of the previous observer may still
// be running when Set returns.
func (t *Tap) Set(o Observer) {
	if o == nil {
		t.observer.Store(nil)
		return
	}
	t.observer.Store(&o)
}

// Observe passes an operation to the observer, if there is one. It is for other transports.
func (t *Tap) Observe(o *Operation) {
	if to := t.observer.Load(); to != nil {
		(*to).Observe(o)
	}
}

// observeReceive shows a received Send to o.
func (l *link) observeReceive(o Observer, msg []byte, inv conn.Invalidation) {
	w := &l.seen
	*w = Operation{Op: verbs.OpSend, In: true, Length: len(msg), Data: append(w.Data[:0], msg)}
	if inv.Did {
		w.Op, w.RKey = verbs.OpSendInvalidate, inv.RKey
	}
	l.show(o)
}

// observe shows requests to o: the Sends and RDMA Writes among those that are about to be posted
// or, with ended, the RDMA Reads among those that have completed, whose data has arrived.
func (l *link) observe(o Observer, wrs []verbs.SendWR, ended bool) {
	for i := range wrs {
		wr, w := &wrs[i], &l.seen
		switch wr.Op {
		case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpRDMAWrite, verbs.OpRDMARead:
		default:
			continue
		}
		*w = Operation{Op: wr.Op, In: wr.Op == verbs.OpRDMARead, RKey: wr.RKey, Addr: wr.RemoteAddr, Data: w.Data[:0]}
		if w.In != ended {
			continue
		}
		if wr.Op == verbs.OpSendInvalidate {
			w.RKey = wr.InvalidateRKey
		}
		for _, s := range wr.SGL {
			w.Data = append(w.Data, s.MR.Bytes()[s.Offset:s.Offset+s.Length])
			w.Length += s.Length
		}
		l.show(o)
	}
}

// show passes l.seen to o and then drops its references to data.
func (l *link) show(o Observer) {
	o.Observe(&l.seen)
	clear(l.seen.Data)
}
