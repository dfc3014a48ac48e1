package verbstest

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// The addresses of the two sides match, and the device is the provider's.
func testAddresses(e *env) {
	if a := e.ln.Addr(); !a.IsValid() || a.Port() == 0 {
		e.Errorf("listener at %v", a)
	}
	p := e.pair(Options{})
	a, b := p.A.ID, p.B.ID
	if a.RemoteAddr() != e.ln.Addr() || b.LocalAddr() != e.ln.Addr() {
		e.Errorf("connected to %v: %v, %v", e.ln.Addr(), a.RemoteAddr(), b.LocalAddr())
	}
	if a.LocalAddr() != b.RemoteAddr() || a.LocalAddr() == (netip.AddrPort{}) {
		e.Errorf("connected from %v, seen as %v", a.LocalAddr(), b.RemoteAddr())
	}
	if p.A.QP.State() != verbs.QPRTS || p.B.QP.State() != verbs.QPRTS {
		e.Errorf("states %d and %d", p.A.QP.State(), p.B.QP.State())
	}
	if e.passive.Name() == "" || e.passive.Name() != e.attr.Provider || e.attr.Name == "" {
		e.Errorf("provider %q, device %q of provider %q", e.passive.Name(), e.attr.Name, e.attr.Provider)
	}
}

// Connect ends with its context when there is no answer. Its objects can be closed at once.
func testConnectTimeout(e *env) {
	id, err := e.active.Resolve(e.Context(), e.ln.Addr().String())
	Must(e, err)
	s := e.side(id, Options{})
	s.Receive(1, 0, 8)
	ctx, cancel := context.WithTimeout(e.Context(), 50*time.Millisecond)
	defer cancel()
	if err := id.Connect(ctx, rdmacm.ConnParam{}); !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("connect: %v", err)
	}
}

// A request whose sender has given up is not returned, or cannot be accepted.
func testConnectCancel(e *env) {
	a, b := e.request(Options{})
	s := e.side(b, Options{})
	a.cancel()
	if err := <-a.err; !errors.Is(err, context.Canceled) {
		e.Fatalf("cancelled connect: %v", err)
	}
	a.Close()
	ctx := e.patience()
	if err := b.Accept(ctx, rdmacm.ConnParam{}); err == nil {
		s.Ended()
	}
	e.pair(Options{}).Exchange(1)
}

// A request that is closed without an answer is rejected or ended.
func testRequestClosed(e *env) {
	a, b := e.request(Options{})
	Must(e, b.Close())
	if err := <-a.err; err == nil {
		e.Fatal("connected to a request that was closed")
	}
	e.pair(Options{}).Exchange(1)
}

// Connect without a listener fails.
func testUnreachable(e *env) {
	ln, err := e.passive.Listen(e.Context(), e.target.Listen)
	Must(e, err)
	address := ln.Addr().String()
	Must(e, ln.Close())
	if err := <-e.start(address, Options{}).err; !errors.Is(err, rdmacm.ErrUnreachable) {
		e.Fatalf("connect: %v", err)
	}
}

// A listener's Close wakes GetRequest and drops waiting requests. Accepted connections
// continue. Its address is free again.
func testListenerClose(e *env) {
	ln, err := e.passive.Listen(e.Context(), e.target.Listen)
	Must(e, err)
	if _, err := e.passive.Listen(e.Context(), ln.Addr().String()); err == nil {
		e.Fatal("two listeners at one address")
	}
	p := connect(e, e.active, ln, Options{})
	got := make(chan error, 1)
	go func() {
		id, err := ln.GetRequest(context.Background())
		if id != nil {
			err = errors.Join(errors.New("a request"), id.Close())
		}
		got <- err
	}()
	Must(e, ln.Close())
	if err := <-got; !errors.Is(err, verbs.ErrClosed) {
		e.Fatalf("get request of a closed listener: %v", err)
	}
	p.Exchange(1)
	again, err := e.passive.Listen(e.Context(), ln.Addr().String())
	Must(e, err)
	a := e.start(again.Addr().String(), Options{})
	Must(e, again.Close())
	if err := <-a.err; err == nil {
		e.Fatal("connected to a listener that never accepted")
	}
}

// GetRequest ends with its context. It leaves a request that comes after that to others.
func testGetRequestContext(e *env) {
	ended, cancel := context.WithCancel(e.Context())
	cancel()
	a := e.start(e.ln.Addr().String(), Options{})
	for range 100 { // the request comes meanwhile
		if _, err := e.ln.GetRequest(ended); !errors.Is(err, context.Canceled) {
			e.Fatalf("get request: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	ctx := e.patience()
	id, err := e.ln.GetRequest(ctx)
	Must(e, err)
	Must(e, id.Reject(ctx, nil))
	Must(e, id.Close())
	if err := <-a.err; err == nil {
		e.Fatal("connected to a listener that rejected")
	}
}

// The steps of a connection happen once and in order.
func testConnectMisuse(e *env) {
	p := e.pair(Options{})
	ctx := e.Context()
	for what, err := range map[string]error{
		"connect twice":           p.A.ID.Connect(ctx, rdmacm.ConnParam{}),
		"accept twice":            p.B.ID.Accept(ctx, rdmacm.ConnParam{}),
		"reject after accept":     p.B.ID.Reject(ctx, nil),
		"accept on active side":   p.A.ID.Accept(ctx, rdmacm.ConnParam{}),
		"connect on passive side": p.B.ID.Connect(ctx, rdmacm.ConnParam{}),
	} {
		if err == nil {
			e.Errorf("%s succeeded", what)
		}
	}
	attr := verbs.QPAttr{SendCQ: p.A.SendCQ, RecvCQ: p.A.RecvCQ, MaxSendWR: 1, MaxRecvWR: 1}
	if _, err := p.A.ID.CreateQP(p.A.PD, attr); err == nil {
		e.Error("two queue pairs of one identifier")
	}
	p.Exchange(1)
}
