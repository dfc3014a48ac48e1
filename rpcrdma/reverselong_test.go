package rpcrdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// longMessage makes a message with its RPC message, body, in a read chunk.
func (r *raw) longMessage(h rpcrdma1.Header, body []byte) []byte {
	r.t.Helper()
	mem := r.readable(len(body))
	copy(mem.Bytes(), body)
	h.Version, h.Proc = 1, rpcrdma1.NoMsg
	h.Reads = []rpcrdma1.ReadSegment{{Segment: segment(mem, 0, len(body))}}
	return h.Append(nil)
}

// nullMessage is the RPC message of a call of procNull.
func nullMessage(xid uint32) []byte {
	return oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 0x20000001, Version: 1, Procedure: procNull})
}

// typed is an RPC message with any message type.
func typed(xid, mtype uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, xid)
	return append(binary.BigEndian.AppendUint32(b, mtype), make([]byte, 32)...)
}

// readable is memory for the peer of a raw end to read.
func (r *raw) readable(n int) verbs.MR {
	return r.memory(n, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
}

// begin starts a call of procNull and does not wait for it.
func (l *liar) begin() (forward rpcrdma1.Header, done <-chan error) {
	over := begin(func() error { return plain(l.ctx, l.c, procNull) })
	return l.next(), over
}

// longLiar is a server that makes calls to a client that reads replies.
func longLiar(t *testing.T, p rdmacm.Provider) *liar {
	s := rpcrdma.DefaultSettings()
	backward(4)(&s)
	readReplies(&s)
	return reverseLiar(t, p, service{}, s)
}

// TestLongToClient: the RPC message says whether a long message to a client is a call
// or a reply, whatever its XID. A call gets its answer and counts for the reverse
// direction only. A reply completes the call that it answers.
func TestLongToClient(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := longLiar(t, p)
		granted := l.c.Info().CreditsGranted
		for name, m := range map[string]struct {
			add  uint32 // to the XID of a call in flight
			body func(xid uint32) []byte
		}{
			"call, same XID":                {0, nullMessage},
			"call, another XID":             {1000, nullMessage},
			"call, another XID inside":      {0, func(xid uint32) []byte { return nullMessage(xid + 1) }},
			"neither call nor reply":        {0, func(xid uint32) []byte { return typed(xid, 7) }},
			"too short to be either":        {0, func(xid uint32) []byte { return typed(xid, 1)[:4] }},
			"call with the XID of no call":  {1 << 20, nullMessage},
			"call cut short, with same XID": {0, func(xid uint32) []byte { return nullMessage(xid)[:12] }},
		} {
			forward, done := l.begin()
			xid := forward.XID + m.add
			h, _ := l.answer(l.longMessage(rpcrdma1.Header{XID: xid, Credits: 9000}, m.body(xid)))
			if h.XID != xid || h.Proc != rpcrdma1.Error || h.Err != rpcrdma1.ErrChunk || h.Credits != 4 {
				t.Errorf("%s: %+v", name, h)
			}
			if n := l.c.Info().CreditsGranted; n != granted {
				t.Errorf("%s: grants %d, was %d", name, n, granted)
			}
			reply, body := truth(forward)
			reply.Credits = granted
			l.send(reply, body)
			if err := <-done; err != nil {
				t.Errorf("%s: the client's call: %v", name, err)
			}
		}
		before := l.c.Stats()
		// A reply to no call is dropped; the next is read, and acknowledged.
		forward, done := l.begin()
		l.post(l.longMessage(rpcrdma1.Header{XID: forward.XID + 1, Credits: 9000}, oncrpc.AppendAcceptedReply(nil, forward.XID+1)))
		l.post(l.longMessage(rpcrdma1.Header{XID: forward.XID, Credits: granted}, oncrpc.AppendAcceptedReply(nil, forward.XID)))
		should(t, <-done)
		if h := l.next(); h.Proc != rpcrdma1.Done || h.XID != forward.XID {
			t.Errorf("%+v", h)
		}
		st := l.c.Stats()
		if st.BadXIDs != before.BadXIDs+1 || st.Replies != before.Replies+1 || st.ReverseCalls != before.ReverseCalls || st.RDMAReads != before.RDMAReads+2 {
			t.Errorf("before %+v\nafter %+v", before, st)
		}
	})
}

// TestLongToClientCanceled: a call is given up while its long reply is read. The
// reply is acknowledged all the same, and its credit comes back.
func TestLongToClientCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		l := longLiar(t, p)
		ctx, cancel := context.WithCancel(l.ctx)
		done := begin(func() error { return plain(ctx, l.c, procNull) })
		forward := l.next()
		holdReads(p, time.Second, func() {
			l.post(l.longMessage(rpcrdma1.Header{XID: forward.XID, Credits: 8}, oncrpc.AppendAcceptedReply(nil, forward.XID)))
		})
		cancel()
		if err := <-done; !errors.Is(err, ctx.Err()) {
			t.Error(err)
		}
		if h := l.next(); h.Proc != rpcrdma1.Done || h.XID != forward.XID {
			t.Errorf("%+v", h)
		}
		should(t, l.honestly())
	})
}

// TestLongToClientTurnedOff: a long reply to a call that was sent before extensions.read_replies
// was turned off completes that call, and one to a later call is bad. Neither counts as a call of
// the server.
func TestLongToClientTurnedOff(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := longLiar(t, p)
		forward, done := l.begin()
		off := rpcrdma.DefaultSettings()
		backward(4)(&off)
		l.c.SetSettings(&off)
		l.post(l.longMessage(rpcrdma1.Header{XID: forward.XID, Credits: 8}, oncrpc.AppendAcceptedReply(nil, forward.XID)))
		should(t, <-done)
		if h := l.next(); h.Proc != rpcrdma1.Done || h.XID != forward.XID {
			t.Errorf("%+v", h)
		}
		forward, done = l.begin()
		l.post(l.longMessage(rpcrdma1.Header{XID: forward.XID, Credits: 8}, oncrpc.AppendAcceptedReply(nil, forward.XID)))
		if err := <-done; !errors.Is(err, rpcrdma.ErrBadReply) {
			t.Errorf("sent after that: %v", err)
		}
		should(t, l.honestly())
	})
}

// holdReads delivers the messages that post sends at once, and delays the RDMA Reads that
// follow, and what is sent after them in that direction, by d.
func holdReads(p *loopback.Provider, d time.Duration, post func()) {
	p.Fabric().SetDelay(0)
	p.Fabric().SetFaults(loopback.Faults{Request: func(r loopback.Request) verbs.WCStatus {
		if r.Op == verbs.OpRDMARead {
			p.Fabric().SetDelay(d)
		}
		return verbs.WCSuccess
	}})
	post()
	synctest.Wait()
	p.Fabric().SetFaults(loopback.Faults{})
	p.Fabric().SetDelay(0)
}

// calling is a server that has a call to a raw client in flight.
func calling(t *testing.T, p rdmacm.Provider) (b *bed, r *raw, c *rpcrdma.Conn) {
	b = newBed(t, p, bedConfig{settings: backward(4), timeout: time.Hour})
	r = b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)) // no invalidation
	c = <-b.conns
	r.exchange(message(rpcrdma1.Header{XID: 1}, procNull))
	c.OpenBackchannel()
	return b, r, c
}

// begin starts a call of the server and does not wait for it.
func (r *raw) begin(c *rpcrdma.Conn) (xid uint32, done <-chan error) {
	over := begin(func() error { return plain(r.ctx, c, procNull) })
	var h rpcrdma1.Header
	_, err := h.Decode(r.receive())
	r.ok(err)
	return h.XID, over
}

// TestLongToServer: the same at a server that makes calls. Calls are served. The
// server does not read replies in this direction: the call that such a reply
// answers fails, and the reply does not count as a call of the client.
func TestLongToServer(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		_, r, c := calling(t, p)
		xid, done := r.begin(c)
		for _, x := range []uint32{xid, xid + 1000} {
			h, body := r.exchange(r.longMessage(rpcrdma1.Header{XID: x, Credits: 32}, nullMessage(x)))
			if h.XID != x || h.Proc != rpcrdma1.Msg || len(body) != 24 {
				t.Errorf("%+v, %x", h, body)
			}
		}
		for name, body := range map[string][]byte{
			"another XID": nullMessage(xid + 1), "neither": typed(xid, 7), "short": typed(xid, 1)[:4], "cut": nullMessage(xid)[:12],
		} {
			if h, _ := r.exchange(r.longMessage(rpcrdma1.Header{XID: xid, Credits: 32}, body)); h.XID != xid || h.Proc != rpcrdma1.Error {
				t.Errorf("%s: %+v", name, h)
			}
		}
		before := c.Stats()
		r.post(r.longMessage(rpcrdma1.Header{XID: xid + 7, Credits: 9000}, oncrpc.AppendAcceptedReply(nil, xid+7)))
		r.post(r.longMessage(rpcrdma1.Header{XID: xid, Credits: 8}, oncrpc.AppendAcceptedReply(nil, xid)))
		if err := <-done; !errors.Is(err, rpcrdma.ErrBadReply) {
			t.Error(err)
		}
		if st := c.Stats(); st.Calls != before.Calls || st.BadXIDs != before.BadXIDs+1 || st.Replies != before.Replies {
			t.Errorf("before %+v\nafter %+v", before, st)
		}
		xid, done = r.begin(c)
		r.post(reverseReply(xid, 8))
		should(t, <-done)
	})
}

// TestLongToServerItems: a long call with an argument in a chunk of its own, which is
// read with the call, once.
func TestLongToServerItems(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		_, r, c := calling(t, p)
		mem := r.readable(8192)
		pattern(mem.Bytes()[4096:], 7)
		args := []byte{0, 0, 0x10, 0, 0, 0, 0, 7}
		rpc := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 5, Program: 0x20000001, Version: 1, Procedure: procWrite})
		body := append(rpc, args...)
		copy(mem.Bytes(), body)
		before := c.Stats().RDMAReads
		h := rpcrdma1.Header{XID: 5, Version: 1, Credits: 32, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{
			{Segment: segment(mem, 0, len(body))}, {Position: uint32(len(rpc)) + 4, Segment: segment(mem, 4096, 4096)},
		}}
		got, results := r.exchange(h.Append(nil))
		if got.XID != 5 || got.Proc != rpcrdma1.Msg {
			t.Errorf("%+v, %x", got, results)
		}
		if n := c.Stats().RDMAReads - before; n != 2 {
			t.Errorf("%d RDMA Reads", n)
		}
	})
}

// TestLongReadFails: when an RDMA Read of a long message fails, the connection ends,
// whatever the message was, and all memory is freed.
func TestLongReadFails(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := longLiar(t, p)
		mem := l.readable(4096)
		forward, done := l.begin()
		h := rpcrdma1.Header{XID: forward.XID, Version: 1, Credits: 8, Proc: rpcrdma1.NoMsg}
		h.Reads = []rpcrdma1.ReadSegment{{Segment: segment(mem, 0, 100)}}
		h.Reads[0].Handle = ^mem.RKey()
		l.send(h, nil)
		var ended *rpcrdma.Error
		if err := <-done; !errors.As(err, &ended) {
			t.Error(err)
		}
		<-l.c.Done()
	})
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		_, r, c := calling(t, p)
		mem := r.readable(4096)
		xid, done := r.begin(c)
		h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 8, Proc: rpcrdma1.NoMsg}
		h.Reads = []rpcrdma1.ReadSegment{{Segment: segment(mem, 0, 100)}}
		h.Reads[0].Handle = ^mem.RKey()
		r.post(h.Append(nil))
		var ended *rpcrdma.Error
		if err := <-done; !errors.As(err, &ended) {
			t.Error(err)
		}
		<-c.Done()
	})
}

// TestLongEnds: a connection that ends while long messages are read, or wait for
// their turn, frees their memory. It never holds more than any connection may.
func TestLongEnds(t *testing.T) {
	const size = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		b, r, c := calling(t, p)
		mem := r.readable(size)
		r.seemFar(p, mem)
		_, done := r.begin(c)
		h := rpcrdma1.Header{Version: 1, Credits: 32, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: segment(mem, 0, size)}}}
		holdReads(p, time.Hour, func() { r.post(h.Append(nil)) })
		for xid := range uint32(29) {
			h.XID = 1 + xid
			r.post(h.Append(nil))
		}
		synctest.Wait()
		if m := b.l.Memory().Taken; m < 16*conn.MaxMessage-size || m > 20<<20 {
			t.Errorf("%d bytes taken", m)
		}
		if st := c.Stats(); st.Calls != 5 || st.ReverseReplies != 0 {
			t.Errorf("counted before they are read: %+v", st)
		}
		should(t, c.Close())
		if err := <-done; err == nil {
			t.Error("answered")
		}
		if m := b.l.Memory().Taken; m != 0 {
			t.Errorf("%d bytes taken", m)
		}
	})
}

// TestLongTakeTurns: a peer sends more long messages than a connection may read at
// once. All are read and answered in the end.
func TestLongTakeTurns(t *testing.T) {
	const size, calls = 1 << 20, 30
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		_, r, c := calling(t, p)
		body := make([]byte, size)
		for xid := range uint32(calls) {
			copy(body, nullMessage(100+xid))
			r.post(r.longMessage(rpcrdma1.Header{XID: 100 + xid, Credits: 32}, body))
		}
		for range calls {
			var h rpcrdma1.Header
			if body := r.take(&h); h.Proc != rpcrdma1.Msg {
				t.Fatalf("%+v: %x", h, body)
			}
		}
		if st := c.Stats(); st.LongCalls != calls || st.RDMAReads < calls || st.RDMAReads > 2*calls { // some in two halves
			t.Errorf("%+v", st)
		}
	})
}

// TestRefusedTakeTurns: long calls that are refused once they are read make room for
// those that wait for their turn.
func TestRefusedTakeTurns(t *testing.T) {
	const size, calls = 1 << 20, 30
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: forth})
	r := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
	r.exchange(message(rpcrdma1.Header{XID: 1}, procNull))
	mem := r.readable(size)
	h := rpcrdma1.Header{Version: 1, Credits: 32, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: segment(mem, 0, size)}}}
	for xid := range uint32(calls) {
		h.XID = 100 + xid // other than that of the RPC message
		r.post(h.Append(nil))
	}
	for range calls {
		var h rpcrdma1.Header
		if body := r.take(&h); h.Proc != rpcrdma1.Error {
			t.Fatalf("%+v: %x", h, body)
		}
	}
}
