package dataplane

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// adapters is a provider whose listeners get connections over the device of now.
type adapters struct {
	rdmacm.Provider
	now atomic.Pointer[adapter]
}

type adapter struct{ verbs.Device }

type adaptersListener struct {
	rdmacm.Listener
	p *adapters
}

type adapterID struct {
	rdmacm.ID
	dev *adapter
}

func (p *adapters) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := p.Provider.Listen(ctx, address)
	return adaptersListener{l, p}, err
}

func (l adaptersListener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	id, err := l.Listener.GetRequest(ctx)
	if err != nil {
		return nil, err
	}
	return adapterID{id, l.p.now.Load()}, nil
}

func (i adapterID) Device() verbs.Device { return i.dev }

// TestAdaptersShareMemory: an adapter whose clients hold the listener's memory gives up the part of
// another adapter when they have gone.
func TestAdaptersShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpcrdma.DefaultSettings()
		s.InlineReceiveSize = 64 << 10
		p := newPlane(t, Config{Memory: MinMemory, Resolver: func(ConnKey) *rpcrdma.Settings { return &s }})
		p.Start()
		all := &adapters{Provider: p.p}
		all.now.Store(&adapter{p.p.Device()})
		l, err := p.add(ListenerConfig{Name: "l", Provider: all, Address: "127.0.0.1:0", Service: "echo", Handler: echo.New()})
		if err != nil {
			t.Fatal(err)
		}
		inForce := func() int64 { return p.Stats()[0].Memory.Limit }
		var first []*rpcrdma.Client
		for range 3 {
			c, _ := p.dial(l.Info().Address.String(), nil)
			first = append(first, c)
			for range 3 {
				if err := null(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait() // the receives for their credits are posted
		all.now.Store(&adapter{p.p.Device()})
		p.dial(l.Info().Address.String(), nil)
		if inForce() <= p.Memory() {
			t.Fatal("the first adapter's clients hold too little memory")
		}
		for _, c := range first {
			c.Close()
			p.next(ConnDown)
		}
		time.Sleep(time.Minute)
		if n := inForce(); n > p.Memory() {
			t.Errorf("%d of %d bytes", n, p.Memory())
		}
	})
}
