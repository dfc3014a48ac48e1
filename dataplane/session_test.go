package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// opener is a service that keeps something for each connection, or says why
// not.
type opener struct {
	echo.Service
	err  error
	none bool

	mu     sync.Mutex
	opened []*kept
}

// kept is what it keeps.
type kept struct {
	peer   netip.AddrPort
	up     chan perconn.Conn
	closed chan struct{}
	calls  int
}

func (o *opener) OpenConn(_ context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if o.err != nil || o.none {
		return nil, o.err
	}
	k := &kept{peer: peer, up: make(chan perconn.Conn, 1), closed: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.opened = append(o.opened, k)
	return k, nil
}

func (k *kept) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
	k.calls++
	return nil
}

func (k *kept) Up(c perconn.Conn) { k.up <- c }
func (k *kept) Close()            { close(k.closed) } // twice would panic

func TestServiceKeepsSomethingForEachConnection(t *testing.T) {
	p := newPlane(t, Config{})
	o := new(opener)
	addr := p.listen("a", o)
	p.Start()
	a, upA := p.dial(addr, nil)
	b, upB := p.dial(addr, nil)
	for _, c := range []*rpcrdma.Client{a, b, b} {
		if err := null(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if o.opened[0].peer != upA.PeerPort || o.opened[1].peer != upB.PeerPort {
		t.Errorf("opened for %v and %v", o.opened[0].peer, o.opened[1].peer)
	}
	ca, cb := <-o.opened[0].up, <-o.opened[1].up
	if a, b := ca.(served).c.key.ID, cb.(served).c.key.ID; a != upA.ID || b != upB.ID {
		t.Errorf("up as %s and %s", a, b)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ca.Call(over, new(rpcrdma.Call)); !errors.Is(err, rpcrdma.ErrNoBackchannel) {
		t.Errorf("a call before the back channel is open: %v", err)
	}
	before := p.listeners["a"].calls.waited.Load()
	ca.Waited(time.Hour)
	if n := p.listeners["a"].calls.waited.Load() - before; n < uint64(time.Hour) {
		t.Errorf("waited %v", time.Duration(n))
	}
	ca.End("because")
	if e := p.next(ConnDown); e.Conn.ID != upA.ID || e.Reason != "because" {
		t.Errorf("%s went down for %q", e.Conn.ID, e.Reason)
	}
	<-o.opened[0].closed
	if err := null(t.Context(), b); err != nil {
		t.Errorf("the other: %v", err)
	}
	b.Close()
	p.next(ConnDown)
	<-o.opened[1].closed
	if o.opened[0].calls != 1 || o.opened[1].calls != 3 {
		t.Errorf("%d and %d calls", o.opened[0].calls, o.opened[1].calls)
	}
}

func TestServiceThatCantServeRejects(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", &opener{err: errors.New("no upstream")})
	p.Start()
	if c, err := p.open(p.judged, addr, rpcrdma.DialConfig{}); err == nil {
		c.Close()
		t.Fatal("accepted")
	}
	if n := p.info("a").Refusals[RefusedService]; n != 1 {
		t.Errorf("%d counted", n)
	}
	if lines := p.log.Lines("no upstream"); len(lines) != 1 {
		t.Errorf("log: %q", lines)
	}
}

func TestServiceThatKeepsNothingAnswersItself(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", &opener{none: true})
	p.Start()
	c, _ := p.dial(addr, nil)
	if err := null(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// laterOpener opens connections when it may.
type laterOpener struct {
	opener
	open chan struct{}
}

func (o *laterOpener) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	select {
	case <-o.open:
		return o.opener.OpenConn(ctx, peer)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
