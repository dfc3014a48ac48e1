package dataplane

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// failing is a provider whose listeners can be said to be in trouble.
type failing struct {
	rdmacm.Provider
	listener *failingListener // the last one
}

func (f *failing) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := f.Provider.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	f.listener = &failingListener{Listener: l, changed: make(chan struct{})}
	return f.listener, nil
}

type failingListener struct {
	rdmacm.Listener
	mu      sync.Mutex
	reason  error
	changed chan struct{}
}

func (l *failingListener) Health() (changed <-chan struct{}, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.reason
}

func (l *failingListener) set(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = reason
	close(l.changed)
	l.changed = make(chan struct{})
}

// A listener is degraded as long as its provider reports a problem. The log shows when that
// began and ended.
func TestListenerHealth(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	f := &failing{Provider: p.p}
	if _, err := p.AddListener(t.Context(), ListenerConfig{Name: "nfs", Provider: f, Address: "127.0.0.1:0", Handler: echo.New()}); err != nil {
		t.Fatal(err)
	}
	expect := func(state, trouble string) {
		t.Helper()
		if l := p.Listeners()[0]; l.State != state || l.Trouble != trouble {
			t.Errorf("it is %s (%s), not %s (%s)", l.State, l.Trouble, state, trouble)
		}
	}
	expect(StateUp, "")
	f.listener.set(errors.New("port 1 of rxe0 is DOWN"))
	expect(StateDegraded, "port 1 of rxe0 is DOWN")
	p.log.Await(t, `listener degraded" listener=nfs reason="port 1 of rxe0 is DOWN"`)
	f.listener.set(errors.New("device removed"))
	expect(StateDegraded, "device removed")
	p.log.Await(t, `reason="device removed"`)
	f.listener.set(nil)
	expect(StateUp, "")
	p.log.Await(t, `listener healthy again" listener=nfs`)
	f.listener.set(errors.New("device removed"))
	if _, err := p.RemoveListener(t.Context(), "nfs"); err != nil {
		t.Error(err)
	}
}
