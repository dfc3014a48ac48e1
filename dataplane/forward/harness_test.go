package forward

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

// eachProvider runs a test end to end over each provider.
func eachProvider(t *testing.T, f func(t *testing.T, p rdmacm.Provider)) {
	t.Run("loopback", func(t *testing.T) { f(t, loopback.New(loopback.Config{})) })
	t.Run("softiwarp", func(t *testing.T) {
		p, err := softiwarp.New(softiwarp.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		f(t, p)
	})
}

// newHasty makes a forwarder without Forwarder.life, which TestEndsSoon has.
func newHasty(cfg Config) *Forwarder {
	f := New(cfg)
	f.life = 0
	return f
}

// rig is a data plane whose only listener forwards to an upstream. At its end
// nothing may be left of it, and none of its registered memory be taken.
type rig struct {
	*Forwarder
	t        testing.TB
	p        rdmacm.Provider
	d        *dataplane.Dataplane
	settings rpcrdma.Settings // of both sides
	log      logtest.Log
	address  string
	events   *dataplane.Subscription
}

func newRig(t testing.TB, p rdmacm.Provider, upstream string, change ...func(*Config)) *rig {
	t.Helper()
	return newRigWith(t, p, rpcrdma.ExtBackchannel, upstream, change...)
}

// newRigWith has extensions on at both sides.
func newRigWith(t testing.TB, p rdmacm.Provider, ext rpcrdma.Extensions, upstream string, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, p: refereetest.Around(t, p), settings: rpcrdma.DefaultSettings()}
	r.settings.Extensions = ext
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	cfg := Config{Forward: spec.Forward{Address: upstream}, Logger: log}
	for _, f := range change {
		f(&cfg)
	}
	r.Forwarder = newHasty(cfg)
	r.d = dataplane.New(dataplane.Config{Logger: log, Resolver: func(dataplane.ConnKey) *rpcrdma.Settings { return &r.settings }})
	r.events = r.d.Subscribe(1 << 10)
	listener, err := r.d.PrepareListener(t.Context(), dataplane.ListenerConfig{
		Name: "in", Provider: r.p, Address: "127.0.0.1:0", Service: "upstream", Handler: r.Forwarder,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	r.address = listener.Info().Address.String()
	r.d.Start()
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.d.Shutdown(ctx); err != nil {
		r.t.Error(err)
	}
	for _, l := range r.d.Stats() {
		if l.Memory.Taken != 0 {
			r.t.Errorf("%d bytes of registered memory taken", l.Memory.Taken)
		}
	}
	if err := r.p.Close(); err != nil {
		r.t.Error(err)
	}
	if n := r.Stats().Connections; n != 0 {
		r.t.Errorf("%d upstream connections left", n)
	}
	if r.t.Failed() {
		r.t.Log(r.log.String())
	}
}

// dial connects a client, which is closed before the rig.
func (r *rig) dial(change ...func(*rpcrdma.DialConfig)) *rpcrdma.Client {
	r.t.Helper()
	cfg := rpcrdma.DialConfig{Settings: &r.settings}
	for _, f := range change {
		f(&cfg)
	}
	c, err := rpcrdma.Dial(r.t.Context(), r.p, r.address, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// down waits for the end of a connection and gives the reason.
func (r *rig) down() string {
	r.t.Helper()
	for e := range r.events.Events() {
		if e.Type == dataplane.ConnDown {
			return e.Reason
		}
	}
	r.t.Fatal("events ended")
	return ""
}

// logged says whether a line has all the texts.
func (r *rig) logged(texts ...string) bool { return len(r.log.Lines(texts...)) > 0 }

// waiter makes calls of a session as a transport does, one at a time, and waits for their
// answers.
type waiter struct {
	s    *Session
	over chan error
}

func newWaiter(s *Session) *waiter { return &waiter{s, make(chan error, 1)} }

// Answer implements oncrpc.Later.
func (w *waiter) Answer(err error) { w.over <- err }

func (w *waiter) serve(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	call.Later = w
	err := w.s.ServeRPC(ctx, call, reply)
	if errors.Is(err, oncrpc.ErrLater) {
		err = <-w.over
	}
	return err
}

// serve makes one call of a session.
func serve(ctx context.Context, s *Session, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return newWaiter(s).serve(ctx, call, reply)
}
