package softiwarp

import (
	"context"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// testTimeout ends a test that hangs. It measures nothing.
const testTimeout = 30 * time.Second

func newProvider(tb testing.TB, c Config) *Provider {
	tb.Helper()
	p, err := New(c)
	verbstest.Must(tb, err)
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("closing the provider: %v", err)
		}
	})
	return p
}

// side is one end of a connection with its objects. A test makes what else it needs.
type side struct {
	tb   testing.TB
	p    *Provider
	id   rdmacm.ID
	pd   verbs.PD
	cq   verbs.CQ
	qp   verbs.QP
	attr verbs.QPAttr
	one  [1]verbs.WC

	send1 [1]verbs.SendWR // of the ping-pong benchmark
	recv1 [1]verbs.RecvWR
}

func newSide(tb testing.TB, p *Provider, id rdmacm.ID, attr verbs.QPAttr) *side {
	tb.Helper()
	s := &side{tb: tb, p: p, id: id}
	s.pd = must(p.Device().AllocPD())(tb)
	s.cq = must(p.Device().CreateCQ(attr.MaxSendWR + attr.MaxRecvWR))(tb)
	attr.SendCQ, attr.RecvCQ = s.cq, s.cq
	s.attr = attr
	s.qp = must(id.CreateQP(s.pd, attr))(tb)
	tb.Cleanup(func() {
		for _, c := range []interface{ Close() error }{s.id, s.cq, s.pd} {
			if err := c.Close(); err != nil {
				tb.Errorf("closing %T: %v", c, err)
			}
		}
	})
	return s
}

// region registers memory that lives as long as the test.
func (s *side) region(buf []byte, access verbs.Access) verbs.MR {
	s.tb.Helper()
	mr := must(s.pd.RegMR(buf, access))(s.tb)
	s.tb.Cleanup(func() {
		s.qp.Close()
		if err := mr.Close(); err != nil {
			s.tb.Errorf("closing a region: %v", err)
		}
	})
	return mr
}

// complete waits for the next n completions.
func (s *side) complete(n int) []verbs.WC {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	all := make([]verbs.WC, 0, n)
	for len(all) < n {
		if err := s.cq.Wait(ctx); err != nil {
			s.tb.Fatalf("waiting for completion %d of %d: %v", len(all)+1, n, err)
		}
		var wc [16]verbs.WC
		k := s.cq.Poll(wc[:min(len(wc), n-len(all))])
		all = append(all, wc[:k]...)
	}
	return all
}

// succeed is complete for completions that must be successes.
func (s *side) succeed(n int) []verbs.WC {
	s.tb.Helper()
	all := s.complete(n)
	for _, wc := range all {
		if wc.Status != verbs.WCSuccess {
			s.tb.Fatalf("completion of %d: %v (%v)", wc.ID, wc.Status, s.qp.Err())
		}
	}
	return all
}

func (s *side) send(wrs ...verbs.SendWR) {
	s.tb.Helper()
	if n, err := s.qp.PostSend(wrs); err != nil {
		s.tb.Fatalf("posting request %d: %v", n, err)
	}
}

func (s *side) recv(wrs ...verbs.RecvWR) {
	s.tb.Helper()
	if n, err := s.qp.PostRecv(wrs); err != nil {
		s.tb.Fatalf("posting receive %d: %v", n, err)
	}
}

// ended waits for the end of the connection and gives its reason.
func (s *side) ended() error {
	s.tb.Helper()
	select {
	case <-s.id.Disconnected():
	case <-time.After(testTimeout):
		s.tb.Fatal("connection did not end")
	}
	return s.qp.Err()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		verbstest.Must(tb, err)
		return v
	}
}

var testAttr = verbs.QPAttr{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4}

var testParam = rdmacm.ConnParam{ResponderResources: 16, InitiatorDepth: 16}

// connectPair connects two queue pairs; a is the active side.
func connectPair(tb testing.TB, active, passive Config) (a, b *side) {
	tb.Helper()
	return connectWith(tb, newProvider(tb, active), newProvider(tb, passive), testParam, testParam)
}

func connectWith(tb testing.TB, pa, pb *Provider, ca, cb rdmacm.ConnParam) (a, b *side) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	l := must(pb.Listen(ctx, "127.0.0.1:0"))(tb)
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		id, err := l.GetRequest(ctx)
		if err == nil {
			b = newSide(tb, pb, id, testAttr)
			err = id.Accept(ctx, cb)
		}
		accepted <- err
	}()
	a = newSide(tb, pa, must(pa.Resolve(ctx, l.Addr().String()))(tb), testAttr)
	verbstest.Must(tb, a.id.Connect(ctx, ca))
	verbstest.Must(tb, <-accepted)
	return a, b
}

func sge(mr verbs.MR, off, n int) []verbs.SGE {
	return []verbs.SGE{{MR: mr, Offset: off, Length: n}}
}
