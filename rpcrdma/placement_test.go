package rpcrdma_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// sendDDP are the extensions that items placed by Sends take.
const sendDDP = rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtSendDDP

// placing has items placed by Sends, with receives for 32 KiB.
func placing(more rpcrdma.Extensions) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		speakingWith(sendDDP | more)(s)
		s.InlineReceiveSize, s.InlineSendMax = 33<<10, 33<<10
	}
}

// landing is a service that notes where the data of WRITE calls is.
type landing struct {
	mu    sync.Mutex
	parts int
	loose int // parts that don't begin with a page
}

func (l *landing) ServeRPC(ctx context.Context, c *call, r *reply) error {
	if c.Procedure != procWrite {
		return service{}.ServeRPC(ctx, c, r)
	}
	d := xdr.NewDecoder(c.Args.Stream)
	apart := len(c.Args.Items) > 0
	n, sum := 0, uint32(0)
	for _, part := range c.Args.Parts(nil, &d, maxOpaque) {
		l.mu.Lock()
		if l.parts++; apart && reflect.ValueOf(part).Pointer()%4096 != 0 {
			l.loose++
		}
		l.mu.Unlock()
		n, sum = n+len(part), crc32.Update(sum, crc32.IEEETable, part)
	}
	trailer := d.Uint32()
	for _, v := range []uint32{uint32(n), sum, trailer} {
		r.Stream = xdr.AppendUint32(r.Stream, v)
	}
	return d.Err()
}

// placed are two ends that place items by Sends, which have met.
func placed(t testing.TB, p rdmacm.Provider, client, server func(*rpcrdma.Settings)) (b *bed, l *landing, c *rpcrdma.Client, conn *rpcrdma.Conn) {
	t.Helper()
	l = &landing{}
	b = newBed(t, p, bedConfig{settings: server, handler: l})
	c, conn = b.dial(client)
	must(t, echo(b.ctx, c, 1, 1))
	return b, l, c, conn
}

// TestPlacedBySend: what goes by Send makes no RDMA and exposes nothing, WRITE
// data is read by the service where it landed, on its page, and READ data is
// copied once.
func TestPlacedBySend(t *testing.T) {
	for _, more := range []rpcrdma.Extensions{0, rpcrdma.ExtContinuation} {
		t.Run(fmt.Sprint("continuation ", more != 0), func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) { placeSizes(t, p, more) })
		})
	}
}

func placeSizes(t *testing.T, p rdmacm.Provider, more rpcrdma.Extensions) {
	b, l, c, conn := placed(t, p, placing(more), placing(more))
	for _, tc := range []struct {
		write             bool
		n, parts          int
		requests, replies uint64
		rdma              bool
	}{
		{true, 100, 1, 1, 1, false},
		{true, 4096, 1, 1, 1, false},
		{true, 32768, 1, 1, 1, false},
		{true, 32765, 1, 1, 1, false},
		{true, 40000, 2, 2, 1, more == 0},
		{true, 256 << 10, 8, 8, 1, more == 0},
		{true, 1 << 20, 1, 1, 1, true},
		{false, 1, 0, 1, 1, false},
		{false, 4096, 0, 1, 1, false},
		{false, 32768, 0, 1, 1, false},
		{false, 32767, 0, 1, 1, false},
		{false, 50000, 0, 1, 2, more == 0},
		{false, 256 << 10, 0, 1, 8, more == 0},
		{false, 1 << 20, 0, 1, 1, true},
	} {
		l.parts = 0
		cs, ss := c.Stats(), conn.Stats()
		do := func() error { return readBack(b.ctx, c, procRead, tc.n, tc.n, 7) }
		if tc.write {
			do = func() error { return writeOut(b.ctx, c, tc.n, 7) }
		}
		if err := do(); err != nil {
			t.Fatalf("%+v: %v", tc, err)
		}
		c2, s2 := c.Stats(), conn.Stats()
		rdma := s2.RDMAReads + s2.RDMAWrites + c2.Registrations - ss.RDMAReads - ss.RDMAWrites - cs.Registrations
		if (rdma > 0) != tc.rdma || (!tc.rdma && (l.parts != tc.parts || s2.Receives-ss.Receives != tc.requests || c2.Receives-cs.Receives != tc.replies)) {
			t.Errorf("%+v: %d RDMA operations and registrations, %d parts, %d requests, %d replies", tc, rdma, l.parts,
				s2.Receives-ss.Receives, c2.Receives-cs.Receives)
		}
		if s2.PullupBytes != ss.PullupBytes {
			t.Errorf("%+v: %d bytes copied at the responder", tc, s2.PullupBytes-ss.PullupBytes)
		}
		if n := c2.FixupBytes - cs.FixupBytes; !tc.write && !tc.rdma && tc.n >= 4096 && n != uint64(tc.n) {
			t.Errorf("%+v: %d bytes copied at the requester", tc, n)
		}
	}
	if l.loose > 0 {
		t.Errorf("%d parts don't begin with a page", l.loose)
	}
	if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies+ss.Ignored+cs.Ignored != 0 {
		t.Errorf("%+v\n%+v", cs, ss)
	}
}

// TestPlacedShapes: everything that can be called goes well with it on, at one
// end or both.
func TestPlacedShapes(t *testing.T) {
	off := speakingWith(rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit)
	for name, ends := range map[string][2]func(*rpcrdma.Settings){
		"both":               {placing(rpcrdma.ExtContinuation), placing(rpcrdma.ExtContinuation)},
		"client":             {placing(0), off},
		"server":             {off, placing(0)},
		"server's continues": {placing(0), placing(rpcrdma.ExtContinuation)},
	} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				b, _, c, conn := placed(t, p, ends[0], ends[1])
				should(t, everyShape(b, c))
				if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies != 0 {
					t.Errorf("%+v\n%+v", cs, ss)
				}
			})
		})
	}
}

// TestPlacedUnderLoad: many at once, with few credits.
func TestPlacedUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		few := func(s *rpcrdma.Settings) {
			placing(rpcrdma.ExtContinuation)(s)
			s.CreditsMax = 12
		}
		b, l, c, conn := placed(t, p, few, few)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for k := range 20 {
					n, seed := (i*7919+k*10007)%120000, uint32(i*k)
					if err := errors.Join(writeOut(b.ctx, c, n, seed), readBack(b.ctx, c, procRead, n, n, seed)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			})
		}
		all.Wait()
		if l.loose > 0 {
			t.Errorf("%d parts don't begin with a page", l.loose)
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies+ss.Ignored+cs.Ignored != 0 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}

// TestPlacedReverse: data of calls to the client lands on its pages, which
// without could not be sent at all when it is longer than a Send.
func TestPlacedReverse(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		set := func(s *rpcrdma.Settings) {
			placing(rpcrdma.ExtContinuation)(s)
			backward(12)(s)
		}
		l := &landing{}
		b := newBed(t, p, bedConfig{settings: set})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: l}, set)
		must(t, echo(b.ctx, c, 1, 1))
		conn.OpenBackchannel()
		must(t, echo(b.ctx, conn, 1, 1)) // brings the grant
		for _, tc := range []struct{ n, parts int }{{100, 1}, {20000, 1}, {34000, 2}, {100000, 4}} {
			l.parts, l.loose = 0, 0
			before := c.Stats()
			if err := writeFrom(b.ctx, conn, make(heapBuffer, tc.n), tc.n, 5); err != nil {
				t.Fatalf("%d bytes: %v", tc.n, err)
			}
			if s := c.Stats(); l.parts != tc.parts || l.loose > 0 || s.RDMAReads+s.RDMAWrites+s.Registrations != 0 || s.PullupBytes != before.PullupBytes {
				t.Errorf("%d bytes: %d parts, %d of them loose, %+v", tc.n, l.parts, l.loose, s)
			}
		}
	})
}

// TestPlacedAfterRaise: on a connection that began with receives without target
// segments, larger ones are told while calls are made, and from then on items go
// by Send; smaller ones take that back.
func TestPlacedAfterRaise(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		small := speakingWith(sendDDP)
		b, l, c, conn := placed(t, p, small, small)
		sized := func(n uint32) {
			s := rpcrdma.DefaultSettings()
			small(&s)
			s.InlineReceiveSize, s.InlineSendMax = n, n
			c.SetSettings(&s)
			conn.SetSettings(&s)
		}
		told := func(size uint32) {
			t.Helper()
			for i := range 2000 {
				must(t, echo(b.ctx, c, i, uint32(i)))
				ci, si := c.Info().Characteristics, conn.Info().Characteristics
				if ci.Own.Buffer.Length == size && ci.Peer.Buffer.Length == size && si.Peer.Buffer.Length == size {
					return
				}
			}
			t.Fatalf("structure of %d bytes is not told: %+v", size, c.Info().Characteristics)
		}
		moves := func(rdma bool) {
			t.Helper()
			before := conn.Stats()
			must(t, errors.Join(writeOut(b.ctx, c, 32768, 1), readBack(b.ctx, c, procRead, 32768, 32768, 1)))
			if after := conn.Stats(); (after.RDMAReads+after.RDMAWrites > before.RDMAReads+before.RDMAWrites) != rdma {
				t.Errorf("RDMA, but for %v: %+v", rdma, after)
			}
		}
		moves(true)
		sized(33 << 10)
		told(33 << 10)
		moves(false)
		sized(4096)
		told(0)
		moves(true)
		sized(64 << 10)
		told(33 << 10) // the one structure of this connection
		moves(false)
		if l.loose > 0 {
			t.Errorf("%d parts don't begin with a page", l.loose)
		}
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+ss.Errors+cs.BadReplies+ss.Ignored+cs.Ignored != 0 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}
