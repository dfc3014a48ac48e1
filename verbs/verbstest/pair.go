package verbstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Options configure connections. The zero value is valid.
type Options struct {
	Listen  string // "127.0.0.1:0" when empty
	Buffer  int    // bytes of each side's region, 64 KiB when 0
	SendWR  int    // of each queue pair, 64 when 0
	RecvWR  int    // 64 when 0
	SGE     int    // entries of a request, 4 when 0
	CQDepth int    // of each CQ; enough for both queues when 0
	SigAll  bool
	OneCQ   bool // one CQ for sends and receives
	// Reads is IRD and ORD of both sides, 16 when 0.
	Reads int
	// Access is each region's, all rights when 0.
	Access verbs.Access
	// ActiveData and PassiveData are the private data of either side.
	ActiveData, PassiveData []byte
	// PassivePD is the protection domain of the passive side. If nil, the side makes and owns one.
	PassivePD verbs.PD
	// PassiveCQ is one CQ to use for all completions of the passive side.
	PassiveCQ verbs.CQ
}

// AllAccess has every right that a region can have.
const AllAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	o.Buffer = cmp.Or(o.Buffer, 64<<10)
	o.SendWR = cmp.Or(o.SendWR, 64)
	o.RecvWR = cmp.Or(o.RecvWR, 64)
	o.SGE = cmp.Or(o.SGE, 4)
	o.CQDepth = cmp.Or(o.CQDepth, 2*(o.SendWR+o.RecvWR))
	o.Reads = cmp.Or(o.Reads, 16)
	o.Access = cmp.Or(o.Access, AllAccess)
	return o
}

func (o Options) param(private []byte) rdmacm.ConnParam {
	return rdmacm.ConnParam{PrivateData: private, ResponderResources: o.Reads, InitiatorDepth: o.Reads}
}

// Pair is a connection from A to B. Each side has its own PD, CQs and a registered buffer.
type Pair struct {
	A, B *Side
}

// NewPair connects two providers, which may be the same, and closes the whole connection
// when the test ends.
func NewPair(t TB, active, passive rdmacm.Provider, o Options) *Pair {
	t.Helper()
	o = o.withDefaults()
	ln, err := passive.Listen(t.Context(), o.Listen)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer func() { Must(t, ln.Close()) }()
	return connect(t, active, ln, o)
}

// connect makes a pair through a listener that no other client uses.
func connect(t TB, active rdmacm.Provider, ln rdmacm.Listener, o Options) *Pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	p, err := dial(ctx, t, active, ln, o.withDefaults())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(ctx context.Context, t TB, active rdmacm.Provider, ln rdmacm.Listener, o Options) (*Pair, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		side *Side
		err  error
	}
	passive := make(chan result, 1)
	go func() {
		s, err := Accept(ctx, t, ln, o)
		passive <- result{s, err}
	}()
	a, err := Dial(ctx, t, active, ln.Addr().String(), o)
	if err != nil {
		cancel()
	}
	b := <-passive
	if err = errors.Join(err, b.err); err != nil {
		return nil, errors.Join(err, a.shut(), b.side.shut())
	}
	return &Pair{A: a, B: b.side}, nil
}

// Dial makes the active side of a connection; the caller closes it. It may be
// called from any goroutine.
func Dial(ctx context.Context, t TB, p rdmacm.Provider, address string, o Options) (*Side, error) {
	o = o.withDefaults()
	id, err := p.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	s, err := NewSide(t, id, o, nil, nil)
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	if err := id.Connect(ctx, o.param(o.ActiveData)); err != nil {
		return nil, errors.Join(fmt.Errorf("active side: %w", err), s.shut())
	}
	return s, nil
}

// Accept makes the passive side of the next connection; the caller closes it.
// It may be called from any goroutine.
func Accept(ctx context.Context, t TB, ln rdmacm.Listener, o Options) (*Side, error) {
	o = o.withDefaults()
	id, err := ln.GetRequest(ctx)
	if err != nil {
		return nil, fmt.Errorf("get request: %w", err)
	}
	s, err := NewSide(t, id, o, o.PassivePD, o.PassiveCQ)
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	if err := id.Accept(ctx, o.param(o.PassiveData)); err != nil {
		return nil, errors.Join(fmt.Errorf("accept: %w", err), s.shut())
	}
	return s, nil
}

// Close closes both sides with all their objects, in order.
func (p *Pair) Close() {
	p.A.Close()
	p.B.Close()
}
