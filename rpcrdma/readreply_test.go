package rpcrdma_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func readReplies(s *rpcrdma.Settings) { s.Extensions |= settings.ExtReadReplies }

// longEcho is an echo of n bytes by a caller that expects nothing of the kind.
func longEcho(ctx context.Context, c *rpcrdma.Client, n int, seed uint32) error {
	b := make([]byte, n)
	pattern(b, seed)
	call := newCall(procEcho)
	call.Args = xdr.AppendOpaque(nil, b)
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	if string(call.Reply) != string(call.Args) {
		return errWrong
	}
	return nil
}

// unexpected reads n bytes, for which there are results of at most most bytes,
// if any, and no more than that in the reply.
func unexpected(ctx context.Context, c *rpcrdma.Client, proc uint32, n, most int, seed uint32) (apart bool, err error) {
	call := newCall(proc)
	call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), seed)
	buf := make(heapBuffer, most)
	if most > 0 {
		call.Results = []rpcrdma.Result{{Buf: buf, Max: most}}
	}
	if err := c.Call(ctx, &call); err != nil {
		return false, err
	}
	d := xdr.NewDecoder(call.Reply)
	gotSeed, length := d.Uint32(), int(d.Uint32())
	var data []byte
	if apart = most > 0 && call.Results[0].Apart > 0; apart {
		data = buf[:call.Results[0].Apart]
	} else {
		data = d.Fixed(length)
	}
	after := d.Uint32()
	want := make([]byte, n)
	pattern(want, seed)
	if d.Err() != nil || gotSeed != seed || after != ^seed || length != n || string(data) != string(want) {
		return apart, errWrong
	}
	return apart, nil
}

// tooMany says that a reply was not exposed because too many are.
func tooMany(err error) bool {
	var e *rpcrdma.PeerError
	return errors.As(err, &e) && e.Code == rpcrdma1.ErrChunk
}

// TestReadReplies: replies of any size and shape for which too little was
// offered come by RDMA Read when both ends have it on, and are too long, or bad,
// when one has not.
func TestReadReplies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies})
		c, s := b.dial(readReplies)
		reads := uint64(0)
		for i, n := range []int{4096, 4097, 5000, 65535, 300000, 1 << 20} {
			if err := longEcho(b.ctx, c, n, uint32(i)); err != nil {
				t.Fatalf("echo of %d bytes: %v", n, err)
			}
			for _, proc := range []uint32{procRead, procHeap} {
				if apart, err := unexpected(b.ctx, c, proc, n, 0, uint32(i)); err != nil || apart {
					t.Fatalf("%d bytes: %v, apart %v", n, err, apart)
				}
			}
			reads += 3
		}
		// A result that was expected inline, but for what goes with it, is placed
		// as if it had been written.
		for _, proc := range []uint32{procRead, procHeap} {
			if apart, err := unexpected(b.ctx, c, proc, 4037, 4040, 1); err != nil || !apart {
				t.Errorf("result: %v, apart %v", err, apart)
			}
			reads++
		}
		if st := c.Stats(); st.RDMAReads != reads || st.Errors != 0 {
			t.Errorf("client: %+v", st)
		}
		// An answer shows that all DONEs before it have arrived.
		must(t, echo(b.ctx, c, 10, 1))
		if st := s.Stats(); st.Errors != 0 || st.Ignored != 0 || st.RepliesReclaimed != 0 {
			t.Errorf("server: %+v", st)
		}
		// Six echoes were read in both directions, all other replies in one.
		cs, ss := c.Stats(), s.Stats()
		if want := cs.Replies + reads + 6; cs.RoundTrips != want || ss.RoundTrips != want {
			t.Errorf("round trips: %d and %d, want %d", cs.RoundTrips, ss.RoundTrips, want)
		}
	})
}

// TestReadRepliesConcurrently: many at once, more than may be exposed: those
// beyond get the error that they would have got without.
func TestReadRepliesConcurrently(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies})
		c, s := b.dial(readReplies)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for k := range 20 {
					if err := longEcho(b.ctx, c, 5000+1000*i+k, uint32(k)); err != nil {
						t.Errorf("echo: %v", err)
					}
					should(t, echo(b.ctx, c, 100, 1))
				}
			})
		}
		wg.Wait()
		if st := s.Stats(); st.Ignored != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReadRepliesOneSided: with the extension at one end only, such calls fail
// and others work. A client that had it off at connect makes no RDMA Reads: nothing
// is exposed to it.
func TestReadRepliesOneSided(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies})
		never, s := b.dial(nil)
		var e *rpcrdma.PeerError
		for i := range conn.MaxExposures + 1 {
			if err := longEcho(b.ctx, never, 5000, uint32(i)); !errors.As(err, &e) || e.Code != rpcrdma1.ErrChunk {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if n := s.Stats().RepliesTooLong; n != conn.MaxExposures+1 {
			t.Errorf("%d replies too long", n)
		}
		c, s := b.dial(readReplies)
		off := rpcrdma.DefaultSettings()
		c.SetSettings(&off)
		for i := range conn.MaxExposures {
			if err := longEcho(b.ctx, c, 5000, uint32(i)); !errors.Is(err, rpcrdma.ErrBadReply) {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		// Nothing was acknowledged: no more is exposed.
		if err := longEcho(b.ctx, c, 5000, 1); !errors.As(err, &e) || e.Code != rpcrdma1.ErrChunk {
			t.Errorf("%v", err)
		}
		should(t, readBack(b.ctx, c, procRead, 20000, 20000, 1))
		off = b.settings
		off.Extensions = 0
		s.SetSettings(&off)
		on := rpcrdma.DefaultSettings()
		readReplies(&on)
		c.SetSettings(&on)
		if err := longEcho(b.ctx, c, 5000, 1); !errors.As(err, &e) || e.Code != rpcrdma1.ErrChunk {
			t.Errorf("%v", err)
		}
	})
}

// TestServerWithoutReads: a call that a server would have to read is not made if the server
// offers no RDMA Reads at connect.
func TestServerWithoutReads(t *testing.T) {
	p := loopback.New(loopback.Config{})
	cm, err := p.Listen(t.Context(), bedHost+":0")
	must(t, err)
	dialed := make(chan *rpcrdma.Client)
	go func() {
		c, err := rpcrdma.Dial(t.Context(), refereetest.Around(t, p), cm.Addr().String(), rpcrdma.DialConfig{})
		should(t, err)
		dialed <- c
	}()
	r := &raw{t: t, ctx: t.Context()}
	r.id, err = cm.GetRequest(t.Context())
	r.ok(err)
	r.setUp()
	r.ok(r.id.Accept(t.Context(), rdmacm.ConnParam{ResponderResources: 1}))
	c := <-dialed
	if err := longEcho(t.Context(), c, 20000, 1); !errors.Is(err, conn.ErrNoReads) {
		t.Error(err)
	}
	if s := c.Stats(); s.Calls != 0 {
		t.Errorf("%+v", s)
	}
	r.ok(c.Close())
	r.close()
	r.ok(cm.Close())
	r.ok(p.Close())
}

// TestReadRepliesToggled: turned on and off under load, calls get their reply
// or the error that says that they can't, and the connection lives.
func TestReadRepliesToggled(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies})
		c, s := b.dial(readReplies)
		var wg sync.WaitGroup
		var mu sync.Mutex
		outcomes := make(map[bool]int)
		for i := range 4 {
			wg.Go(func() {
				for k := range 30 {
					err := longEcho(b.ctx, c, 5000+k, uint32(i))
					var e *rpcrdma.PeerError
					if err != nil && !errors.As(err, &e) {
						t.Errorf("%v", err)
					}
					mu.Lock()
					outcomes[err == nil]++
					mu.Unlock()
				}
			})
		}
		for i := range 40 {
			set := b.settings
			if i%2 == 0 {
				set.Extensions = 0
			}
			s.SetSettings(&set)
			should(t, echo(b.ctx, c, 10, 1))
		}
		wg.Wait()
		if err := longEcho(b.ctx, c, 5000, 1); err != nil {
			t.Errorf("%v after %v", err, outcomes)
		}
	})
}

// TestLyingReadLists: read lists that a server made up fail the call or end the
// connection; nothing is left.
func TestLyingReadLists(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		readReplies(&s)
		l := newLiar(t, p, kernelPrivateData, &s)
		reply := l.memory(16384, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		lies := map[string]func(h *rpcrdma1.Header) []byte{
			"no message": func(h *rpcrdma1.Header) []byte { h.Reads[0].Length = 0; return nil },
			"nonsense":   func(h *rpcrdma1.Header) []byte { h.Reads[0].Offset += 1000; return nil },
			"too long":   func(h *rpcrdma1.Header) []byte { h.Reads[0].Length = conn.MaxMessage + 1; return nil },
			"wraps":      func(h *rpcrdma1.Header) []byte { h.Reads[0].Offset = ^uint64(0); return nil },
			"beyond the end": func(h *rpcrdma1.Header) []byte {
				h.Reads = append(h.Reads, h.Reads[0])
				h.Reads[1].Position = 4000
				return nil
			},
		}
		for name, lie := range lies {
			call := newCall(procNull)
			failed := begin(func() error { return l.c.Call(l.ctx, &call) })
			h, body := truth(l.next())
			copy(reply.Bytes(), body)
			h.Proc, h.Reads = rpcrdma1.NoMsg, []rpcrdma1.ReadSegment{{Segment: segment(reply, 0, len(body))}}
			l.send(h, lie(&h))
			if err := <-failed; !errors.Is(err, rpcrdma.ErrBadReply) {
				t.Errorf("%s: %v", name, err)
			}
			var done rpcrdma1.Header
			if _, err := done.Decode(l.receive()); err != nil || done.Proc != rpcrdma1.Done || done.XID != h.XID {
				t.Errorf("%s: %v, %+v", name, err, done)
			}
		}
		// The truth; then an STag that is none.
		for _, handle := range []uint32{reply.RKey(), ^reply.RKey()} {
			call := newCall(procNull)
			failed := begin(func() error { return l.c.Call(l.ctx, &call) })
			h, body := truth(l.next())
			copy(reply.Bytes(), body)
			h.Proc, h.Reads = rpcrdma1.NoMsg, []rpcrdma1.ReadSegment{{Segment: segment(reply, 0, len(body))}}
			h.Reads[0].Handle = handle
			l.send(h, nil)
			var ended *rpcrdma.Error
			switch err := <-failed; {
			case handle == reply.RKey() && err != nil:
				t.Errorf("the truth: %v", err)
			case handle != reply.RKey() && !errors.As(err, &ended):
				t.Errorf("bad STag: %v", err)
			}
			if handle == reply.RKey() {
				l.receive()
			}
		}
	})
}

// TestReadReplyCancel: calls are given up at any moment, before their reply is
// read, meanwhile and after. The connection goes on, and everything is
// acknowledged.
func TestReadReplyCancel(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies})
		c, s := b.dial(readReplies)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for k := range 25 {
					ctx, cancel := context.WithCancel(b.ctx)
					others := make(chan struct{})
					go func() {
						defer close(others)
						if k%2 == 0 {
							should(t, echo(b.ctx, c, 50*i, 1))
						}
						cancel()
					}()
					_, err := unexpected(ctx, c, procRead, 5000+1000*k, 0, uint32(k))
					if err != nil && !errors.Is(err, context.Canceled) && !tooMany(err) {
						t.Errorf("%v", err)
					}
					<-others
				}
			})
		}
		wg.Wait()
		for i := range uint32(2 * conn.MaxExposures) {
			_, err := unexpected(b.ctx, c, procRead, 100000, 0, i)
			for tooMany(err) { // of those given up some are still being read
				_, err = unexpected(b.ctx, c, procRead, 100000, 0, i)
			}
			should(t, err)
		}
		if st := s.Stats(); st.RepliesReclaimed != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReadReplyFails: each kind of request that a reply with read chunks takes
// fails once. The connection ends, nothing is left.
func TestReadReplyFails(t *testing.T) {
	p := loopback.New(loopback.Config{})
	b := newBed(t, p, bedConfig{settings: readReplies})
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpRDMARead, verbs.OpLocalInvalidate, verbs.OpBindMW} {
		for k := range uint64(4) {
			p.Fabric().SetFaults(loopback.Faults{})
			c, s := b.dial(readReplies)
			p.Fabric().SetFaults(loopback.Faults{Request: func(r loopback.Request) verbs.WCStatus {
				if r.Op == op && r.Seq >= 9+k {
					return verbs.WCRemAccessErr
				}
				return verbs.WCSuccess
			}})
			for i := uint32(0); ; i++ {
				if _, err := unexpected(b.ctx, c, procRead, 5000, 0, i); err != nil {
					break
				}
			}
			<-c.Done()
			<-s.Done()
			if c.Err() == nil && s.Err() == nil {
				t.Errorf("opcode %d: no reason", op)
			}
		}
	}
}

// TestReadReplyDrain: a connection that is drained waits for the DONE of what
// the peer reads.
func TestReadReplyDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: readReplies, timeout: time.Hour})
		r := b.dialRaw(kernelPrivateData)
		s := <-b.conns
		h, _ := r.exchange(message(rpcrdma1.Header{XID: 1}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 7)...))
		drained := begin(func() error { return s.Drain(b.ctx) })
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("before the DONE: %v", err)
		default:
		}
		r.post((&rpcrdma1.Header{XID: h.XID, Version: 1, Credits: 1, Proc: rpcrdma1.Done}).Append(nil))
		r.ended()
		should(t, <-drained)
	})
}

// TestInvalidatesReply: a peer that invalidates the memory that it was to read
// loses its connection, and nothing is left.
func TestInvalidatesReply(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: readReplies})
	r := b.dialRaw(kernelPrivateData)
	s := <-b.conns
	h, _ := r.exchange(message(rpcrdma1.Header{XID: 1}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 7)...))
	done := rpcrdma1.Header{XID: 1, Version: 1, Credits: 1, Proc: rpcrdma1.Done}
	n := copy(r.send.Bytes(), done.Append(nil))
	_, err := r.qp.PostSend([]verbs.SendWR{{
		Op: verbs.OpSendInvalidate, InvalidateRKey: h.Reads[0].Handle, SGL: []verbs.SGE{{MR: r.send, Length: n}},
	}})
	r.ok(err)
	<-s.Done()
	if err := s.Err(); !errors.Is(err, rpcrdma.ErrInvalidated) {
		t.Errorf("%v", err)
	}
}

// TestFinishReadReplies: Finish lets the client read the replies so far, and does not wait for the
// calls without one.
func TestFinishReadReplies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var s *rpcrdma.Conn
		waits := make(chan struct{})
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			switch c.Procedure {
			case procNull:
				close(waits)
				<-ctx.Done()
			case procRead:
				r.Sent = s.Finish
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{settings: readReplies, handler: h, up: func(c *rpcrdma.Conn) { s = c }})
		c, _ := b.dial(readReplies)
		must(t, echo(b.ctx, c, 10, 1)) // before it there is one credit
		waiting := begin(func() error { return plain(b.ctx, c, procNull) })
		<-waits
		_, err := unexpected(b.ctx, c, procRead, 300000, 0, 1)
		should(t, err)
		if err := <-waiting; err == nil {
			t.Error("the call without a reply got one")
		}
		<-s.Done()
	})
}
