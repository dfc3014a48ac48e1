package connector

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

// providers are what end-to-end tests run over.
var providers = []struct {
	name string
	make func(t testing.TB) rdmacm.Provider
}{
	{"loopback", newLoopback},
	{"softiwarp", func(t testing.TB) rdmacm.Provider {
		p, err := softiwarp.New(softiwarp.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return refereetest.Around(t, p)
	}},
}

func newLoopback(t testing.TB) rdmacm.Provider {
	return refereetest.Around(t, loopback.New(loopback.Config{}))
}

func eachProvider(t *testing.T, f func(t *testing.T, p rdmacm.Provider)) {
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) { f(t, p.make(t)) })
	}
}

// bindings are those of NFS and of the echo program.
var bindings = ulb.NewRegistry(nfs.Bindings()...)

// rig is a data plane with a listener, a connector whose target it is, and
// their provider. Its end checks that nothing is left of them.
type rig struct {
	t    testing.TB
	p    rdmacm.Provider
	d    *dataplane.Dataplane
	c    *Connector
	log  logtest.Log
	once sync.Once
	// around, if not nil, returns what replaces the listener of the connector.
	around func(net.Listener) net.Listener
}

// newRig has handler answer what comes through the connector. cfg may leave
// out what the rig knows.
func newRig(t testing.TB, p rdmacm.Provider, handler oncrpc.Handler, cfg Config) *rig {
	t.Helper()
	r := newTargetless(t, p)
	r.listen(handler, &cfg)
	r.connect(cfg)
	return r
}

// listen makes handler the target.
func (r *rig) listen(handler oncrpc.Handler, cfg *Config) {
	r.t.Helper()
	listener, err := r.d.PrepareListener(r.t.Context(), dataplane.ListenerConfig{
		Name: "in", Provider: r.p, Address: "127.0.0.1:0", Service: "test", Handler: handler,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	listener.Enter()
	cfg.Target = listener.Info().Address.String()
}

// newTargetless makes the rig without listener and connector.
func newTargetless(t testing.TB, p rdmacm.Provider) *rig {
	r := &rig{t: t, p: p}
	r.d = dataplane.New(dataplane.Config{Logger: slog.New(slog.NewTextHandler(&r.log, nil))})
	r.d.Start()
	t.Cleanup(r.close)
	return r
}

func (r *rig) connect(cfg Config) {
	r.t.Helper()
	cfg.Listen = "127.0.0.1:0"
	r.connectWith(r.t.Context(), cfg)
}

func (r *rig) connectWith(ctx context.Context, cfg Config) {
	r.t.Helper()
	if cfg.Name == "" {
		cfg.Name = "out"
	}
	cfg.Provider, cfg.Dataplane, cfg.Bindings = r.p, r.d, bindings
	cfg.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	var err error
	if r.c, err = Prepare(ctx, cfg); err != nil {
		r.t.Fatal(err)
	}
	if r.around != nil {
		r.c.listen = r.around(r.c.listen)
	}
	r.c.fresh = 0 // TestReload has it
	r.c.Enter()
	r.c.Start()
}

// close ends everything, and fails the test for what is left.
func (r *rig) close() {
	r.once.Do(func() {
		if r.t.Failed() {
			r.t.Log(r.log.String())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if r.c != nil {
			r.c.Shutdown(ctx)
			if u := r.c.memory.Usage(); u.Held != 0 || u.Holders != 0 {
				r.t.Errorf("calls hold memory: %+v", u)
			}
			if st := r.c.place.Places().Stats(); st.Held != 0 || st.Leaving != 0 {
				r.t.Errorf("clients hold places: %+v", st)
			}
		}
		if err := r.d.Shutdown(ctx); err != nil {
			r.t.Error(err)
		}
		if err := r.p.Close(); err != nil {
			r.t.Error(err)
		}
		if live := r.p.Device().(verbs.LiveCounter).Live(); live.Total() != 0 {
			r.t.Errorf("objects left: %+v", live)
		}
		if text := r.log.String(); strings.Contains(text, "level=ERROR") {
			r.t.Errorf("logged:\n%s", text)
		}
	})
}

// dial makes a client of the connector.
func (r *rig) dial(cfg rpctcp.ClientConfig) *rpctcp.Client {
	r.t.Helper()
	c, err := rpctcp.Dial(r.t.Context(), r.c.Addr().String(), cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// raw gives a bare TCP connection to the connector, and a reader of its
// records.
func (r *rig) raw() (net.Conn, *oncrpc.RecordReader) {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.c.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	return nc, oncrpc.NewRecordReader(nc, 4<<20)
}

// outgoing are the connector's connections.
func (r *rig) outgoing() (list []dataplane.ConnInfo) {
	for _, c := range r.d.Connections() {
		if c.Listener == r.c.cfg.Name {
			list = append(list, c)
		}
	}
	return list
}

// handlerFunc is a Handler that is a function.
type handlerFunc func(context.Context, *oncrpc.Call, *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// echoCall calls the echo service.
func echoCall(ctx context.Context, c *rpctcp.Client, proc uint32, args []byte) ([]byte, error) {
	return c.Call(ctx, echo.Program, echo.Version, proc, args, nil)
}

// opaque is an opaque of n bytes as arguments or results.
func opaque(n int) []byte {
	b := make([]byte, n)
	echo.Fill(b)
	return xdr.AppendOpaque(nil, b)
}

// frame is a record of one fragment.
func frame(msg []byte) []byte {
	return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
}

// echoRecord is a call of the echo service as one record.
func echoRecord(xid, proc uint32, args []byte) []byte {
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: echo.Program, Version: echo.Version, Procedure: proc})
	return frame(append(msg, args...))
}

func settings(change func(*rpcrdma.Settings)) dataplane.Resolver {
	s := rpcrdma.DefaultSettings()
	change(&s)
	return func(dataplane.ConnKey) *rpcrdma.Settings { return &s }
}
