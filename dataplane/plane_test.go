package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/loglimit"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

// plane is a data plane under test, with its provider, its log and a stream
// of its events.
type plane struct {
	*Dataplane
	t      *testing.T
	p      *loopback.Provider
	judged rdmacm.Provider // p with a referee at each connection
	log    *logtest.Log
	events *Subscription
}

// newPlane makes a plane without listeners. At the end of the test it is shut
// down, and everything must be free.
func newPlane(t *testing.T, cfg Config) *plane {
	t.Helper()
	return newPlaneOn(t, loopback.FabricConfig{}, cfg)
}

// newPlaneOn makes one on a network.
func newPlaneOn(t *testing.T, network loopback.FabricConfig, cfg Config) *plane {
	t.Helper()
	p := &plane{t: t, p: loopback.New(loopback.Config{Network: network}), log: new(logtest.Log)}
	p.judged = refereetest.Around(t, p.p)
	cfg.Logger = slog.New(loglimit.New(slog.NewTextHandler(p.log, nil)))
	p.Dataplane = New(cfg)
	p.events = p.Subscribe(1 << 16)
	t.Cleanup(func() {
		p.Shutdown(context.Background())
		if taken := p.handshakesTaken(); taken != "" {
			t.Errorf("after the shutdown: %s", taken)
		}
		if err := p.p.Close(); err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	return p
}

// listen adds a listener and gives its address.
func (p *plane) listen(name string, h oncrpc.Handler) string {
	p.t.Helper()
	l, err := p.add(ListenerConfig{
		Name: name, Provider: p.judged, Address: "127.0.0.1:0", Service: "echo", Handler: h,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return l.Info().Address.String()
}

// add adds any listener.
func (p *plane) add(cfg ListenerConfig) (*Listener, error) {
	l, err := p.PrepareListener(p.t.Context(), cfg)
	if err == nil {
		l.Enter()
	}
	return l, err
}

// listener returns the listener of a name.
func (p *plane) listener(name string) *Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listeners[name]
}

// patience is how long a client waits for a listener. It is longer than any machine takes.
const patience = 2 * time.Minute

// open connects. A listener that has no place for a handshake answers nobody: the error then
// says which places are taken.
func (p *plane) open(from rdmacm.Provider, address string, cfg rpcrdma.DialConfig) (*rpcrdma.Client, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	c, err := rpcrdma.Dial(ctx, from, address, cfg)
	if ctx.Err() != nil {
		err = fmt.Errorf("%s did not answer within %s (%s): %w", address, patience, p.handshakesTaken(), err)
	}
	return c, err
}

// handshakesTaken says how many places of handshakes are taken, "" for none.
func (p *plane) handshakesTaken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken []string
	if n, _ := p.handshakes.Used(); n != 0 {
		taken = append(taken, fmt.Sprintf("%d places of handshakes are taken in all", n))
	}
	for name, l := range p.listeners {
		if n, _ := l.handshakes.Used(); n != 0 {
			taken = append(taken, fmt.Sprintf("%d of listener %s", n, name))
		}
	}
	return strings.Join(taken, ", ")
}

// dial connects and waits until the plane has seen it. The client is closed
// with the test.
func (p *plane) dial(address string, s *rpcrdma.Settings) (*rpcrdma.Client, ConnInfo) {
	p.t.Helper()
	c, err := p.open(p.judged, address, rpcrdma.DialConfig{Settings: s})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c, p.next(ConnUp).Conn
}

// next waits for the next event, which must be of a type. That a drain begins
// is passed over unless it is asked for.
func (p *plane) next(want EventType) Event {
	p.t.Helper()
	select {
	case e, ok := <-p.events.Events():
		if !ok {
			p.t.Fatalf("events ended: %v", p.events.Err())
		}
		if e.Type == ConnChanged && e.Conn.State == StateDraining && want != ConnChanged {
			return p.next(want)
		}
		if e.Type != want {
			p.t.Fatalf("event %d of connection %s (%s), want %d", e.Type, e.Conn.ID, e.Reason, want)
		}
		return e
	case <-p.t.Context().Done():
		p.t.Fatal("no event")
	}
	panic("unreachable")
}

// null makes a NULL call.
func null(ctx context.Context, c *rpcrdma.Client) error {
	return c.Call(ctx, &rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcNull})
}

// gate is a handler whose calls wait to be let through.
type gate struct {
	entered chan struct{} // one for each call that came in
	open    chan struct{} // closed to let them finish
	ended   chan struct{} // one for each whose context ended first
	next    *echo.Service
}

func newGate() *gate {
	return &gate{entered: make(chan struct{}, 64), open: make(chan struct{}), ended: make(chan struct{}, 64), next: echo.New()}
}

func (g *gate) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return g.next.ServeRPC(ctx, call, reply)
	case <-ctx.Done():
		g.ended <- struct{}{}
		return ctx.Err()
	}
}

// resolver gives everybody the same settings.
func resolver(change func(*rpcrdma.Settings)) Resolver {
	s := rpcrdma.DefaultSettings()
	change(&s)
	return func(ConnKey) *rpcrdma.Settings { return &s }
}
