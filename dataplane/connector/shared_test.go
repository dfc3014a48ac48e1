package connector

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// held is the echo service that answers nothing but NULL until it is let go.
type held struct {
	*echo.Service
	calls   sync.WaitGroup // that have come
	release chan struct{}
}

func (h *held) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure != echo.ProcNull {
		h.calls.Done()
		<-h.release
	}
	return h.Service.ServeRPC(ctx, c, r)
}

// TestSharedMemory: the registered memory of clients' connections counts toward the data
// plane's budget. Listeners get less, and when nothing is left, no further client is accepted
// until there is room again.
func TestSharedMemory(t *testing.T) {
	r := newTargetless(t, newLoopback(t))
	h := &held{Service: echo.New(), release: make(chan struct{})}
	r.connect(Config{Connector: spec.Connector{Target: newTarget(t, r.p, h)}})
	r.listen(h, new(Config)) // somebody who has to make room
	r.d.SetMemory(dataplane.MinMemory)
	const calls = 8
	h.calls.Add(calls)
	c := r.dial(rpctcp.ClientConfig{MaxCalls: calls})
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil { // before it there is one credit
		t.Fatal(err)
	}
	var answered sync.WaitGroup
	args := xdr.AppendOpaque(nil, make([]byte, 1<<20-4))
	for range calls {
		answered.Go(func() {
			if _, err := echoCall(t.Context(), c, echo.ProcEcho, args); err != nil {
				t.Error(err)
			}
		})
	}
	h.calls.Wait()
	if n := r.d.Connectors()[0].Memory; n < calls<<19 {
		t.Errorf("%d bytes registered for %d calls of 1 MiB", n, calls)
	}
	refused := func() uint64 { return r.d.Connectors()[0].Refusals[dataplane.RefusedMemory] }
	r.until(func() bool { r.comesIn(); return refused() > 0 })
	r.until(func() bool { return r.d.Stats()[0].Memory.Limit < dataplane.MinMemory/2 })
	close(h.release)
	answered.Wait()
	if err := c.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.until(r.comesIn)
}

// TestMemoryLimitChanges: calls that wait for the connector's memory go on when its limit is
// raised. The client stays.
func TestMemoryLimitChanges(t *testing.T) {
	const calls = 16
	h := &held{Service: echo.New(), release: make(chan struct{})}
	h.calls.Add(calls)
	r := newRig(t, newLoopback(t), h, Config{})
	c := r.dial(rpctcp.ClientConfig{MaxCalls: calls})
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil { // before it there is one credit
		t.Fatal(err)
	}
	r.c.SetMemory(MinMemory)
	var answered sync.WaitGroup
	for range calls {
		answered.Go(func() {
			if _, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(1<<20-4)); err != nil {
				t.Error(err)
			}
		})
	}
	r.until(func() bool { return r.c.memory.Usage().Waiting > 0 })
	r.c.SetMemory(1 << 30)
	h.calls.Wait()
	close(h.release)
	answered.Wait()
}

// newTarget is a server with a budget of its own.
func newTarget(t *testing.T, p rdmacm.Provider, h oncrpc.Handler) (address string) {
	t.Helper()
	d := dataplane.New(dataplane.Config{Logger: slog.New(slog.DiscardHandler)})
	listener, err := d.PrepareListener(t.Context(), dataplane.ListenerConfig{Name: "target", Provider: p, Address: "127.0.0.1:0", Service: "test", Handler: h})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	d.Start()
	t.Cleanup(func() {
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return listener.Info().Address.String()
}

// comesIn reports whether a new client gets an answer.
func (r *rig) comesIn() bool {
	c := r.dial(rpctcp.ClientConfig{})
	defer c.Close()
	_, err := echoCall(r.t.Context(), c, echo.ProcNull, nil)
	return err == nil
}

// until waits until the condition is true.
func (r *rig) until(so func() bool) {
	r.t.Helper()
	late, tick := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			r.t.Fatal("not in 30 s")
		}
	}
}
