//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A queue pair that ends before its connection is made, as with its device, is not used by
// the code that makes the connection.
func TestFailedBeforeConnection(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	ln, err := p.Listen(t.Context(), *addressFlag+":0")
	must(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	failed := func(id rdmacm.ID, err error) (rdmacm.ID, *verbstest.Side) {
		t.Helper()
		must(t, err)
		side, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
		must(t, err)
		side.QP.Fail()
		<-side.QP.(*queuePair).flushed
		return id, side
	}
	id, side := failed(p.Resolve(ctx, ln.Addr().String()))
	if err := id.Connect(ctx, rdmacm.ConnParam{}); err == nil {
		t.Error("connected without a queue pair")
	}
	side.Close()

	dialed := make(chan error, 1)
	go func() {
		side, err := verbstest.Dial(ctx, t, p, ln.Addr().String(), verbstest.Options{})
		if err == nil {
			side.Close()
		}
		dialed <- err
	}()
	id, side = failed(ln.GetRequest(ctx))
	if err := id.Accept(ctx, rdmacm.ConnParam{}); err == nil {
		t.Error("accepted without a queue pair")
	}
	side.Close()
	if err := <-dialed; err == nil {
		t.Error("connected to a queue pair that has failed")
	}
}

// A device that goes while a queue pair is being made ends it once it is there.
func TestFailedWhileCreated(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	ln, err := p.Listen(t.Context(), *addressFlag+":0")
	must(t, err)
	defer ln.Close()
	made, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-made:
				return
			default:
			}
			for _, q := range everything(func(q *queuePair) bool { return q.dev.ctx == p.first.ctx }) { // as deviceGone
				q.fail(errRemoved)
			}
		}
	}()
	defer func() {
		close(made)
		<-done
	}()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	for range 100 {
		id, err := p.Resolve(ctx, ln.Addr().String())
		must(t, err)
		side, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
		must(t, err)
		q := side.QP.(*queuePair)
		select {
		case <-q.flushed:
		case <-ctx.Done():
			t.Fatal("the queue pair does not end")
		}
		if _, err := q.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{side.SGE(0, 8)}}}); err != nil {
			t.Errorf("a Receive after the end: %v", err)
		}
		side.Close()
	}
}
