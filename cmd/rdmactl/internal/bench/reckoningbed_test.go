package bench

import (
	"context"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/interop/reckoning"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// bed is an echo service and its client, over a network with a delay.
type bed struct {
	t      *testing.T
	ctx    context.Context
	client *rpcrdma.Client
	server *rpcrdma.Conn
}

// newBed connects in a way; the test's end ends it.
func newBed(t *testing.T, s *rpcrdma.Settings, oneWay time.Duration) *bed {
	t.Helper()
	b := &bed{t: t}
	var cancel context.CancelFunc
	b.ctx, cancel = context.WithTimeout(context.Background(), time.Hour)
	p := refereetest.Around(t, loopback.New(loopback.Config{Network: loopback.FabricConfig{Delay: oneWay}}))
	l, err := rpcrdma.Listen(b.ctx, p, "127.0.0.1:0", rpcrdma.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *rpcrdma.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := l.Accept(b.ctx)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		c, err := req.Accept(b.ctx, rpcrdma.ConnConfig{Handler: echo.New(), Settings: s})
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		accepted <- c
	}()
	b.client, err = rpcrdma.Dial(b.ctx, p, l.Addr().String(), rpcrdma.DialConfig{Settings: s})
	if b.server = <-accepted; err != nil || b.server == nil {
		t.Fatalf("no connection: %v", err)
	}
	t.Cleanup(func() {
		for _, err := range []error{b.client.Close(), b.server.Close(), l.Close(), p.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		cancel()
	})
	return b
}

// calls are made of each kind for measurement.
const calls = 5

// do makes calls one after the other, one more than bench counts, as it tries
// one first.
func (b *bed) do(w reckoning.Work, calls int) *Result {
	b.t.Helper()
	r, err := Run(b.ctx, &target.Target{Client: b.client}, Config{
		Op: Op(w.Op), Size: w.Size, Room: w.Asked, Depth: 1, Calls: calls, Duration: time.Hour, Timeout: time.Hour, Program: target.Echo,
	})
	if err != nil {
		b.t.Fatalf("%v: %v", w, err)
	}
	if r.Errors != 0 || r.Ops != uint64(calls) {
		b.t.Fatalf("%v: %d of %d calls, %d errors: %v", w, r.Ops, calls, r.Errors, r.FirstError)
	}
	return r
}

// measure gives the counts of a call, and how long one took: all took as long.
func (b *bed) measure(w reckoning.Work) (*reckoning.Counts, time.Duration) {
	b.t.Helper()
	b.do(w, 1) // what is made once is made here
	clientBefore, serverBefore := b.client.Stats(), b.server.Stats()
	r := b.do(w, calls)
	c, err := reckoning.PerCall(reckoning.Since(b.client.Stats(), clientBefore), reckoning.Since(b.server.Stats(), serverBefore), calls+1)
	if err != nil {
		b.t.Fatalf("%v: %v", w, err)
	}
	if want := (PerOp{
		Sends: float64(c.CallSends), Receives: float64(c.ReplySends),
		RDMAReads: float64(c.RDMAReads), RDMAWrites: float64(c.RDMAWrites),
		Registrations:       float64(c.Registrations),
		LocalInvalidations:  float64(c.LocalInvalidations),
		RemoteInvalidations: float64(c.RemoteInvalidations),
		RoundTrips:          float64(c.RoundTrips),
	}); r.PerOp != want {
		b.t.Errorf("%v: bench shows %+v, the ends counted %+v", w, r.PerOp, *c)
	}
	longest := time.Duration(r.LatencyUS.Max * float64(time.Microsecond))
	if r.Elapsed != calls*longest {
		b.t.Errorf("%v: %d calls took %v, the longest %v", w, calls, r.Elapsed, longest)
	}
	return c, longest
}
