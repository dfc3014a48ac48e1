package conn

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// readingEnd is a client's end that reads replies, with a call in flight that
// exposes a window.
func readingEnd(t *testing.T) (*duplexEnd, *Outgoing) {
	s := settings.Default()
	s.Extensions |= settings.ExtReadReplies | settings.ExtBackchannel
	e := newDuplexEnd(t, false, s)
	e.q.MayRead()
	o := &Outgoing{StreamLen: 44, MaxReply: 100, Results: []int{9000}}
	e.plan(o)
	o.Windows[0].RKey = 77
	return e, o
}

// longMessage is a header with a position-zero chunk of n bytes.
func longMessage(xid uint32, n uint32) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 5, Proc: rpcrdma1.NoMsg}
	h.Reads = []rpcrdma1.ReadSegment{{Segment: rpcrdma1.Segment{Handle: 1, Length: n, Offset: 4096}}}
	return h.Append(nil)
}

// TestLongCountsWhenRead: a long message counts for no direction before it is read,
// and then for its own.
func TestLongCountsWhenRead(t *testing.T) {
	for _, call := range []bool{true, false} {
		e, o := readingEnd(t)
		posted, served := e.q.spend.Posted(), e.s.grants.Posted()
		a := e.arrive(longMessage(o.XID, 100), Invalidation{})
		if a.Long == nil || len(a.Long.Fetches) != 1 || a.Long.Fetches[0].Length != 100 {
			t.Fatalf("%+v", a.Long)
		}
		if e.q.spend.Posted() != posted || e.s.grants.Posted() != served || e.q.Granted() != 1 {
			t.Error("counted unread")
		}
		msg := oncrpc.AppendAcceptedReply(nil, o.XID)
		if call {
			msg = oncrpc.AppendCall(nil, &oncrpc.Call{XID: o.XID})
		}
		if a = e.longRead(a.Long, msg); a.Call != call || a.Long != nil {
			t.Fatalf("call %v: %+v", call, a)
		}
		e.arrived(a)
		e.check()
		if granted := uint32(5); call && e.q.Granted() == granted || !call && e.q.Granted() != granted {
			t.Errorf("call %v: %d granted", call, e.q.Granted())
		}
	}
}

// TestLongInvalidates: a long message may revoke memory of the call with its XID, if
// it is the reply. A long call may revoke nothing, and no message may revoke other
// memory.
func TestLongInvalidates(t *testing.T) {
	inv := Invalidation{Did: true, RKey: 77}
	e, o := readingEnd(t)
	a := e.arrive(longMessage(o.XID, 100), inv)
	if a.Long == nil || !o.Windows[0].Revoked {
		t.Fatalf("%+v", a)
	}
	e.arrived(e.longRead(a.Long, oncrpc.AppendAcceptedReply(nil, o.XID)))
	if e.dead || !errors.Is(o.Err, ErrBadReply) { // because it does not return the write chunk
		t.Errorf("ended %v, %v", e.dead, o.Err)
	}
	e, o = readingEnd(t)
	a = e.arrive(longMessage(o.XID, 100), inv)
	acts := e.s.Arrived(e.longRead(a.Long, oncrpc.AppendCall(nil, &oncrpc.Call{XID: o.XID})), nil)
	if len(acts) != 1 || acts[0] != Action(Fail{ErrInvalidated}) {
		t.Errorf("%+v", acts)
	}
	for _, m := range []struct {
		add uint32
		inv Invalidation
	}{{0, Invalidation{Did: true, RKey: 78}}, {1, inv}} {
		e, o = readingEnd(t)
		a = e.arrive(longMessage(o.XID+m.add, 100), m.inv)
		if a.Long != nil {
			t.Fatal("is read")
		}
		if e.arrived(a); !e.dead {
			t.Errorf("%+v: goes on", m)
		}
	}
}

// TestLongBounds: a message that is refused unread gets the answer of a bad call, and
// holds nothing. Such are too many messages at once, messages that are too long, and
// chunks too short for an RPC message.
func TestLongBounds(t *testing.T) {
	e, o := readingEnd(t)
	for _, n := range []uint32{0, 7, MaxMessage + 1} {
		if a := e.in.Arrive(1, longMessage(o.XID, n), Invalidation{}); a.Long != nil || !a.Call {
			t.Errorf("%d bytes: %+v", n, a.Long)
		}
	}
	var all []*Long
	for i := range uint32(maxReadings) {
		a := e.in.Arrive(i, longMessage(i, 8), Invalidation{})
		if a.Long == nil {
			t.Fatalf("message %d", i)
		}
		all = append(all, a.Long)
	}
	if a := e.in.Arrive(0, longMessage(o.XID, 8), Invalidation{}); a.Long != nil || !a.Call {
		t.Errorf("one more: %+v", a)
	}
	for i, l := range all {
		if a := e.in.Read(l, oncrpc.AppendCall(nil, &oncrpc.Call{XID: uint32(i)})); a.Recv != uint32(i) || a.header.XID != uint32(i) {
			t.Fatalf("message %d: %+v", i, a)
		}
	}
	if a := e.in.Arrive(0, longMessage(o.XID, 8), Invalidation{}); a.Long == nil {
		t.Error("none after that")
	}
}

// TestLongGrantsInOrder: a grant counts from the message's arrival on. A reply that is read
// while later ones are processed brings its call's credit back, but does not replace their
// newer grants. In whatever order two are read, the grant of the later one holds.
func TestLongGrantsInOrder(t *testing.T) {
	long := func(xid, credits uint32) []byte {
		msg := longMessage(xid, 100)
		msg[11] = byte(credits)
		return msg
	}
	for name, order := range map[string][]int{"first one first": {0, 1}, "last one first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			e, o := readingEnd(t)
			h := rpcrdma1.Header{XID: o.XID, Version: 1, Credits: 30, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}
			e.receive(h.Append(nil))
			for range 20 {
				e.call(44, 100)
			}
			first := e.open[0].XID // the others have the next ones
			for i := range uint32(2) {
				e.arrived(e.arrive(long(first+i, 30-10*i), Invalidation{}))
			}
			if len(e.reading) != 2 || e.q.Granted() != 30 {
				t.Fatalf("%d messages are read, %d granted", len(e.reading), e.q.Granted())
			}
			reading := e.reading
			e.reading = nil
			for _, i := range order {
				e.arrived(e.longRead(reading[i], oncrpc.AppendAcceptedReply(nil, first+uint32(i))))
			}
			if e.q.Granted() != 20 {
				t.Errorf("%d granted after two long replies, the last grant is 20", e.q.Granted())
			}
			// One that arrives before a short reply and is read after it.
			e.arrived(e.arrive(long(first+2, 30), Invalidation{}))
			h = rpcrdma1.Header{XID: first + 3, Version: 1, Credits: 2}
			e.receive(oncrpc.AppendAcceptedReply(h.Append(nil), h.XID))
			inFlight := e.q.spend.InFlight()
			e.arrived(e.longRead(e.reading[0], oncrpc.AppendAcceptedReply(nil, first+2)))
			if e.q.Granted() != 2 || e.q.spend.InFlight() != inFlight-1 {
				t.Errorf("%d granted, the last grant is 2; %d calls in flight, then %d", e.q.Granted(), inFlight, e.q.spend.InFlight())
			}
			e.reading = nil
			e.check()
		})
	}
}

// TestLongToCaller: a server that makes calls reads a long message, but takes no reply with
// read chunks.
func TestLongToCaller(t *testing.T) {
	s := settings.Default()
	s.Extensions |= settings.ExtReadReplies | settings.ExtBackchannel
	e := newDuplexEnd(t, true, s)
	o := &Outgoing{StreamLen: 44, MaxReply: 100}
	e.plan(o)
	a := e.arrive(longMessage(o.XID, 100), Invalidation{})
	if a.Long == nil {
		t.Fatal("is not read")
	}
	e.out = nil
	e.arrived(e.longRead(a.Long, oncrpc.AppendAcceptedReply(nil, o.XID)))
	if !errors.Is(o.Err, ErrBadReply) || len(e.out) != 0 {
		t.Errorf("%v, %d messages sent", o.Err, len(e.out))
	}
}

// TestLongWhileOff: a long reply to a call that was sent after extensions.read_replies was turned
// off is bad, and nothing else. The server does not know that it is off, and may invalidate
// memory of the call.
func TestLongWhileOff(t *testing.T) {
	e, first := readingEnd(t)
	h := rpcrdma1.Header{XID: first.XID, Version: 1, Credits: 5, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}
	e.receive(h.Append(nil))
	s := e.settings
	s.Extensions &^= settings.ExtReadReplies
	e.set(s)
	o := &Outgoing{StreamLen: 44, MaxReply: 9000}
	e.plan(o)
	o.Windows[0].RKey, e.out = 77, nil
	a := e.arrive(longMessage(o.XID, 100), Invalidation{Did: true, RKey: 77})
	if a.Long == nil {
		t.Fatal("is not read")
	}
	e.arrived(e.longRead(a.Long, oncrpc.AppendAcceptedReply(nil, o.XID)))
	if !errors.Is(o.Err, ErrBadReply) || e.dead || len(e.out) > 0 {
		t.Errorf("%v, ended %v, %d messages sent", o.Err, e.dead, len(e.out))
	}
	e.check()
}

// TestLongTurnedOff: a long reply that is being read when extensions.read_replies is turned
// off, or is still to come, is finished, as other replies are: the call gets it, and the peer
// its DONE.
func TestLongTurnedOff(t *testing.T) {
	for _, given := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			e, first := readingEnd(t)
			h := rpcrdma1.Header{XID: first.XID, Version: 1, Credits: 5, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}
			e.receive(h.Append(nil))
			o := &Outgoing{StreamLen: 44, MaxReply: 100}
			e.plan(o)
			e.out = nil
			off := func() {
				s := e.settings
				s.Extensions &^= settings.ExtReadReplies
				if e.set(s); given {
					e.fromQ(e.q.Cancel(o, nil))
				}
			}
			if before {
				off()
			}
			a := e.arrive(longMessage(o.XID, 100), Invalidation{})
			if a.Long == nil {
				t.Fatalf("given up %v, turned off before %v: is not read", given, before)
			}
			if !before {
				off()
			}
			e.arrived(e.longRead(a.Long, oncrpc.AppendAcceptedReply(nil, o.XID)))
			if want := map[bool]error{true: ErrCanceled}[given]; !errors.Is(o.Err, want) || len(e.open) > 0 || len(e.q.sent)+len(e.q.debts) > 0 {
				t.Errorf("given up %v, turned off before %v: %v, %d calls open, %d without an answer", given, before, o.Err, len(e.open), len(e.q.sent))
			}
			if len(e.out) != 1 {
				t.Errorf("given up %v, turned off before %v: %d messages sent, no DONE", given, before, len(e.out))
			} else if _, err := h.Decode(e.out[0]); err != nil || h.Proc != rpcrdma1.Done || h.XID != o.XID {
				t.Errorf("given up %v, turned off before %v: sent %+v, %v", given, before, h, err)
			}
			e.check()
		}
	}
}
