package rpcrdma_test

import (
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// unbroken looks at what goes over a connection: the transmissions of a group
// follow one another.
type unbroken struct {
	t      *testing.T
	groups [2]struct{ xid, next, count uint32 } // out, in
	seen   [2]int
}

func (u *unbroken) Observe(op *rpcrdma.Operation) {
	if op.Op != verbs.OpSend && op.Op != verbs.OpSendInvalidate {
		return
	}
	way := 0
	if op.In {
		way = 1
	}
	var h rpcrdma2.Header
	if _, err := h.Decode(op.Data[0]); err != nil {
		u.t.Errorf("a message that is malformed: %v", err)
		return
	}
	g := &u.groups[way]
	var cont rpcrdma2.XmtCont
	isCont := h.Proc == rpcrdma2.Optional && h.Option == rpcrdma2.OptXmtCont && cont.Decode(h.Info) == nil
	if within := g.next < g.count; isCont != within || (within && (h.XID != g.xid || cont.Number != g.next)) {
		u.t.Errorf("operation %d of XID %d in group %+v", h.Option, h.XID, *g)
	}
	var req rpcrdma2.XmtReq
	var resp rpcrdma2.XmtResp
	switch {
	case isCont:
		g.next++
	case h.Proc != rpcrdma2.Optional:
	case h.Option == rpcrdma2.OptXmtReq && req.Decode(h.Info) == nil:
		g.xid, g.next, g.count = h.XID, 1, req.Count
	case h.Option == rpcrdma2.OptXmtResp && resp.Decode(h.Info) == nil:
		g.xid, g.next, g.count = h.XID, 1, resp.Count
	}
	if g.next < g.count {
		u.seen[way]++
	}
}

// continued are two ends with extensions.continuation on that have met.
func continued(t *testing.T, p rdmacm.Provider, change func(*rpcrdma.Settings), tap *rpcrdma.Tap) (b *bed, c *rpcrdma.Client, conn *rpcrdma.Conn) {
	t.Helper()
	set := func(s *rpcrdma.Settings) {
		speakingWith(continuation)(s)
		backward(4)(s)
		if change != nil {
			change(s)
		}
	}
	b = newBed(t, p, bedConfig{settings: set, tap: tap})
	c, conn = b.dialServing(rpcrdma.DialConfig{Handler: service{}}, set)
	must(t, echo(b.ctx, c, 1, 1))
	return b, c, conn
}

// TestContinuation: a call and a reply that are longer than one Send take as many
// Sends as they need, and no RDMA; each direction alone, too.
func TestContinuation(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b, c, conn := continued(t, p, nil, nil)
		for _, tc := range []struct {
			name               string
			do                 func() error
			requests, replies  uint64
			reads, writes, mem uint64
		}{
			{"echo of 100 bytes", func() error { return echo(b.ctx, c, 100, 2) }, 1, 1, 0, 0, 0},
			{"echo of 6 KiB", func() error { return echo(b.ctx, c, 6<<10, 2) }, 2, 2, 0, 0, 0},
			{"echo of 30000", func() error { return echo(b.ctx, c, 30000, 3) }, 8, 8, 0, 0, 0},
			{"echo of 40000, above the limit", func() error { return echo(b.ctx, c, 40000, 4) }, 1, 1, 1, 1, 2},
			{"read of 100 of at most 4094", func() error { return readBack(b.ctx, c, procRead, 100, 4094, 5) }, 1, 1, 0, 0, 0},
			{"read of 4094", func() error { return readBack(b.ctx, c, procRead, 4094, 4094, 5) }, 1, 2, 0, 0, 0},
			{"read of 4096", func() error { return readBack(b.ctx, c, procRead, 4096, 4096, 6) }, 1, 1, 0, 1, 1},
			{"write of 4092", func() error { return writeOut(b.ctx, c, 4092, 7) }, 2, 1, 0, 0, 0},
			{"write of 4096", func() error { return writeOut(b.ctx, c, 4096, 8) }, 1, 1, 1, 0, 1},
		} {
			cs, ss := c.Stats(), conn.Stats()
			if err := tc.do(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			c2, s2 := c.Stats(), conn.Stats()
			if s2.Receives-ss.Receives != tc.requests || c2.Receives-cs.Receives != tc.replies ||
				s2.RDMAReads-ss.RDMAReads != tc.reads || s2.RDMAWrites-ss.RDMAWrites != tc.writes || c2.Registrations-cs.Registrations != tc.mem {
				t.Errorf("%s: %d requests, %d replies, %d RDMA Reads, %d RDMA Writes, %d registrations", tc.name,
					s2.Receives-ss.Receives, c2.Receives-cs.Receives, s2.RDMAReads-ss.RDMAReads, s2.RDMAWrites-ss.RDMAWrites, c2.Registrations-cs.Registrations)
			}
			if n := c2.InFlightSum - cs.InFlightSum; n != 1 {
				t.Errorf("%s: %d calls in flight when it went out, want itself alone", tc.name, n)
			}
		}
	})
}

// TestContinuedCalls: calls to the client are no longer bound to one Send.
func TestContinuedCalls(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b, _, conn := continued(t, p, nil, nil)
		conn.OpenBackchannel()
		for _, n := range []int{100, // there is one credit until it is answered
			5000, 12000} {
			if err := echo(b.ctx, conn, n, 1); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	})
}

// TestContinuationUnderLoad: groups of both directions at once, beside explicit
// RDMA, with few credits: nobody waits for ever and nothing is mixed up.
func TestContinuationUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		look, tap := &unbroken{t: t}, new(rpcrdma.Tap)
		tap.Set(look)
		b, c, conn := continued(t, p, func(s *rpcrdma.Settings) { s.CreditsMax, s.CreditsBackchannel = 6, 5 }, tap)
		conn.OpenBackchannel()
		must(t, echo(b.ctx, conn, 1, 1))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for k := range 20 {
					if err := echo(b.ctx, c, 1000+(i+k)*1777%40000, uint32(i*k)); err != nil {
						t.Errorf("forward: %v", err)
					}
				}
			})
			all.Go(func() {
				for k := range 20 {
					if err := echo(b.ctx, conn, 1000+(i+k)*1777%9000, uint32(i*k)); err != nil {
						t.Errorf("reverse: %v", err)
					}
				}
			})
		}
		all.Wait()
		tap.Set(nil)
		if look.seen[0] == 0 || look.seen[1] == 0 {
			t.Errorf("%d transmissions out, %d in", look.seen[0], look.seen[1])
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.BadReplies+cs.Errors+ss.Errors+ss.Ignored+cs.Ignored != 0 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}

// TestContinuationLive: turned on and off at either end under load, no call fails
// or is mixed up; on at both ends, it is in use at once.
func TestContinuationLive(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		set := func(ext rpcrdma.Extensions) *rpcrdma.Settings {
			s := rpcrdma.DefaultSettings()
			speakingWith(rpcrdma.ExtCharacteristics | ext)(&s)
			return &s
		}
		change := func(s *rpcrdma.Settings) { *s = *set(0) }
		b := newBed(t, p, bedConfig{settings: change})
		c, conn := b.dial(change)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for k := 0; ; k++ {
					select {
					case <-stop:
						return
					default:
					}
					if err := echo(b.ctx, c, (i+k)*1777%30000, uint32(i*k)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for k := range 20 {
			on := rpcrdma.ExtXmit | rpcrdma.ExtContinuation
			c.SetSettings(set(on * rpcrdma.Extensions(k&1)))
			conn.SetSettings(set(on * rpcrdma.Extensions(k>>1&1)))
			should(t, echo(b.ctx, c, 6<<10, uint32(k)))
		}
		close(stop)
		all.Wait()
		on := set(rpcrdma.ExtXmit | rpcrdma.ExtContinuation)
		c.SetSettings(on)
		conn.SetSettings(on)
		for c.Info().Characteristics.Peer.RTR&rpcrdma2.RTRContinue == 0 { // until it is told
			must(t, echo(b.ctx, c, 1, 1))
		}
		must(t, echo(b.ctx, c, 1, 1)) // after what the client has answered to that
		before := conn.Stats()
		must(t, echo(b.ctx, c, 6<<10, 1))
		if s := conn.Stats(); s.RDMAReads != before.RDMAReads || s.Receives != before.Receives+2 {
			t.Errorf("%d RDMA Reads, %d receives", s.RDMAReads-before.RDMAReads, s.Receives-before.Receives)
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.BadReplies+cs.Errors+ss.Errors != 0 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}
