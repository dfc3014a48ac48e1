package rpcrdma_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// provider makes one with nothing else on it.
type provider struct {
	name string
	make func(t testing.TB) rdmacm.Provider
}

// bedHost is the address that providers have.
var bedHost = "127.0.0.1"

// providers are what every end-to-end test runs over.
var providers = []provider{
	{"loopback", func(testing.TB) rdmacm.Provider { return loopback.New(loopback.Config{}) }},
	{"loopback without windows", func(testing.TB) rdmacm.Provider {
		// as an iWARP adapter without them, whose RDMA Reads want open sinks
		return loopback.New(loopback.Config{NoWindows: true, NoSendInvalidate: true, ReadSinkRemoteWrite: true})
	}},
	{"infiniband", func(testing.TB) rdmacm.Provider {
		return loopback.New(loopback.Config{Network: loopback.FabricConfig{Transport: loopback.InfiniBand}})
	}},
	{"softiwarp", newSoftiwarp},
}

var must, should = verbstest.Must, verbstest.Should

// noErrors fails the test for what is logged as an error.
type noErrors struct {
	slog.Handler
	t testing.TB
}

func (h noErrors) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (h noErrors) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		r.Message += " " + a.String()
		return true
	})
	h.t.Errorf("logged: %s", r.Message)
	return nil
}

func eachProvider(t *testing.T, f func(t *testing.T, p rdmacm.Provider)) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) { f(t, p.make(t)) })
	}
}

// bed is a provider with a listener, whose connections are accepted as they
// come. Its end checks that nothing is left.
type bed struct {
	t        testing.TB
	ctx      context.Context
	p        rdmacm.Provider // with a referee at each connection
	raw      rdmacm.Provider // the same without, for peers that break rules on purpose
	l        *rpcrdma.Listener
	settings rpcrdma.Settings
	conns    chan *rpcrdma.Conn // as they are accepted
	all      []*rpcrdma.Conn    // until the listener is closed, the accepting goroutine's
}

type bedConfig struct {
	handler  oncrpc.Handler
	up       func(*rpcrdma.Conn)
	settings func(*rpcrdma.Settings) // of the listener's side
	memory   int64
	timeout  time.Duration
	log      *slog.Logger // of the listener's connections
	tap      *rpcrdma.Tap // of all of them
	moved    *fair.Mark   // likewise
	slow     rpcrdma.SlowCalls
	early    bool // the handler takes calls whose items arrive
	later    bool // the handler answers later
	unjudged bool // no referee, whose memory would count as the connections'
}

func newBed(t testing.TB, p rdmacm.Provider, cfg bedConfig) *bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(cfg.timeout, 60*time.Second))
	if cfg.handler == nil {
		cfg.handler = service{}
	}
	judged := p
	if !cfg.unjudged {
		judged = refereetest.Around(t, p)
	}
	l, err := rpcrdma.Listen(ctx, judged, bedHost+":0", rpcrdma.ListenConfig{MemoryLimit: cfg.memory, Logger: slog.New(noErrors{slog.DiscardHandler, t})})
	must(t, err)
	b := &bed{t: t, ctx: ctx, p: judged, raw: p, l: l, settings: rpcrdma.DefaultSettings(), conns: make(chan *rpcrdma.Conn, 2000)}
	if cfg.settings != nil {
		cfg.settings(&b.settings)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { b.accept(cfg) })
	t.Cleanup(func() {
		l.Close()
		accepting.Wait()
		for _, c := range b.all {
			c.Close()
		}
		cancel()
		if err := p.Close(); err != nil {
			t.Errorf("close provider: %v", err)
		}
		if n := p.Device().(verbs.LiveCounter).Live().Total(); n != 0 {
			t.Errorf("objects left: %+v", p.Device().(verbs.LiveCounter).Live())
		}
	})
	return b
}

func (b *bed) accept(cfg bedConfig) {
	for {
		req, err := b.l.Accept(b.ctx)
		if err != nil {
			if !errors.Is(err, verbs.ErrClosed) {
				b.t.Errorf("accept: %v", err)
			}
			return
		}
		s := b.settings
		c, err := req.Accept(b.ctx, rpcrdma.ConnConfig{Handler: cfg.handler, Up: cfg.up, Settings: &s, Logger: cfg.log, Tap: cfg.tap, Moved: cfg.moved, Slow: cfg.slow, Early: cfg.early, Later: cfg.later})
		if err != nil {
			b.t.Errorf("accept: %v", err)
			continue
		}
		b.all = append(b.all, c)
		b.conns <- c
	}
}

// dial connects; the client is closed at the test's end at the latest.
func (b *bed) dial(change func(*rpcrdma.Settings)) (*rpcrdma.Client, *rpcrdma.Conn) {
	b.t.Helper()
	s := rpcrdma.DefaultSettings()
	if change != nil {
		change(&s)
	}
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, Logger: slog.New(noErrors{slog.DiscardHandler, b.t})})
	must(b.t, err)
	b.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.t.Errorf("close client: %v", err)
		}
	})
	return c, <-b.conns
}
