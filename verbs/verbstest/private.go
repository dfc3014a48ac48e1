package verbstest

import (
	"context"
	"errors"

	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Private data of every size arrives both ways.
func testPrivateData(e *env) {
	most := max(e.target.MaxPrivateData, e.target.MaxReplyData)
	for n := range most + 1 {
		asked, told := min(n, e.target.MaxPrivateData), min(n, e.target.MaxReplyData)
		o := Options{Buffer: 4096, SendWR: 4, RecvWR: 4, ActiveData: filled(asked, uint64(n)), PassiveData: filled(told, uint64(n+1))}
		p := e.pair(o)
		e.samePrivate("active side's private data", p.B.ID.Peer().PrivateData, o.ActiveData)
		e.samePrivate("passive side's private data", p.A.ID.Peer().PrivateData, o.PassiveData)
		p.Close()
	}
}

// samePrivate compares private data that arrived with what was sent.
func (e *env) samePrivate(what string, got, want []byte) {
	e.Helper()
	if e.target.PadsPrivateData && len(got) > len(want) {
		sameBytes(e, what+", padding", got[len(want):], make([]byte, len(got)-len(want)))
		got = got[:len(want)]
	}
	sameBytes(e, what, got, want)
}

// Too much of it is refused on the spot; the connection can still be made or
// rejected with less.
func testPrivateDataTooLong(e *env) {
	tooMuch := make([]byte, e.target.MaxPrivateData+1)
	ctx := e.patience()
	id, err := e.active.Resolve(ctx, e.ln.Addr().String())
	Must(e, err)
	a := e.side(id, Options{})
	if err := id.Connect(ctx, rdmacm.ConnParam{PrivateData: tooMuch}); !errors.Is(err, rdmacm.ErrPrivateData) {
		e.Fatalf("connect with %d bytes: %v", len(tooMuch), err)
	}
	connected := make(chan error, 1)
	go func() {
		connected <- id.Connect(ctx, rdmacm.ConnParam{PrivateData: tooMuch[1:], ResponderResources: 1, InitiatorDepth: 1})
	}()
	req, err := e.ln.GetRequest(ctx)
	Must(e, err)
	b := e.side(req, Options{})
	if err := req.Reject(ctx, make([]byte, e.target.MaxRejectData+1)); !errors.Is(err, rdmacm.ErrPrivateData) {
		e.Errorf("reject with more than %d bytes: %v", e.target.MaxRejectData, err)
	}
	param := rdmacm.ConnParam{PrivateData: make([]byte, e.target.MaxReplyData+1)}
	if err := req.Accept(ctx, param); !errors.Is(err, rdmacm.ErrPrivateData) {
		e.Errorf("accept with more than %d bytes: %v", e.target.MaxReplyData, err)
	}
	Must(e, req.Accept(ctx, rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1}))
	Must(e, <-connected)
	(&Pair{a, b}).Exchange(1)
}

// A rejection carries private data too.
func testReject(e *env) {
	for _, n := range []int{0, 1, 100, e.target.MaxRejectData} {
		want := filled(n, uint64(n))
		asked := filled(min(n, e.target.MaxPrivateData), 99)
		a, b := e.request(Options{ActiveData: asked})
		e.samePrivate("private data of the request", b.Peer().PrivateData, asked)
		Must(e, b.Reject(e.Context(), want))
		err := <-a.err
		var rejected *rdmacm.RejectedError
		if !errors.As(err, &rejected) {
			e.Fatalf("connect: %v", err)
		}
		e.samePrivate("private data of the rejection", rejected.PrivateData, want)
		Must(e, b.Close())
	}
}

// attempt is a Connect under way.
type attempt struct {
	*Side
	err    chan error // its outcome
	cancel context.CancelFunc
}

// start begins a Connect to address.
func (e *env) start(address string, o Options) *attempt {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), Patience)
	e.Cleanup(cancel)
	id, err := e.active.Resolve(ctx, address)
	Must(e, err)
	a := &attempt{Side: e.side(id, o), err: make(chan error, 1), cancel: cancel}
	go func() { a.err <- id.Connect(ctx, o.withDefaults().param(o.ActiveData)) }()
	return a
}

// request begins a Connect and fetches it at the listener.
func (e *env) request(o Options) (*attempt, rdmacm.ID) {
	e.Helper()
	a := e.start(e.ln.Addr().String(), o)
	ctx := e.patience()
	b, err := e.ln.GetRequest(ctx)
	Must(e, err)
	return a, b
}
