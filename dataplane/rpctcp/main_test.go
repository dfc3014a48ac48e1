package rpctcp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

// testServer is a server on a listener, shut down at the test's end, when all
// its memory must be back.
type testServer struct {
	*Server
	log    logtest.Log
	addr   string
	served chan error // what Serve returned
}

// places has limits, defaults filled in, and ages connections until the test's end.
func places(t testing.TB, l connlimit.Limits) *connlimit.Table {
	t.Helper()
	table := connlimit.New(time.Now(), connlimit.Config{Limits: DefaultLimits(l)})
	go table.Run(t.Context())
	return table
}

func startServer(t testing.TB, cfg Config, l net.Listener) *testServer {
	t.Helper()
	ts := &testServer{addr: l.Addr().String(), served: make(chan error, 1)}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(&ts.log, nil))
	}
	ts.Server = NewServer(cfg)
	go func() { ts.served <- ts.Serve(l) }()
	t.Cleanup(func() {
		if err := ts.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ts.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		ts.checkMemory(t)
		if st := ts.cfg.Places.Stats(); st.Held != 0 || st.Leaving != 0 {
			t.Errorf("connections hold places: %+v", st)
		}
	})
	return ts
}

// checkMemory fails when memory is out although nothing runs.
func (ts *testServer) checkMemory(t testing.TB) {
	t.Helper()
	for name, p := range map[string]*fair.Pool{"calls": ts.calls.fair, "replies": ts.replies.fair, "streams": ts.streams} {
		if u := p.Usage(); u.Held != 0 || u.Waiting != 0 {
			t.Errorf("%s: %d bytes out, %d waiting", name, u.Held, u.Waiting)
		}
	}
}

// wantLog fails unless the log has exactly one line, with all of words.
func (ts *testServer) wantLog(t testing.TB, words ...string) {
	t.Helper()
	text := ts.log.String()
	if strings.Count(text, "\n") != 1 {
		t.Errorf("not one log line:\n%s", text)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("log lacks %q:\n%s", word, text)
		}
	}
}

// startTCP starts a server on loopback TCP.
func startTCP(t testing.TB, cfg Config) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, cfg, l)
}

func (ts *testServer) dial(t testing.TB, cfg ClientConfig) *Client {
	t.Helper()
	c, err := Dial(t.Context(), ts.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pipeListener accepts one end of each net.Pipe that dial makes: no sockets,
// so that a test can run under synctest's clock.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// dial gives the client's end of a new connection.
func (l *pipeListener) dial(t testing.TB) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	l.conns <- server
	t.Cleanup(func() { client.Close() })
	return client
}

// handlerFunc is a Handler that is a function.
type handlerFunc func(context.Context, *oncrpc.Call, *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// echoCall calls the echo service.
func echoCall(ctx context.Context, c *Client, proc uint32, args []byte) ([]byte, error) {
	return c.Call(ctx, echo.Program, echo.Version, proc, args, nil)
}

// record is an RPC call to the echo service as one record.
func record(xid, proc uint32, args []byte) []byte {
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: echo.Program, Version: echo.Version, Procedure: proc})
	msg = append(msg, args...)
	return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
}

// opaque is an opaque of n bytes as arguments or results.
func opaque(n int) []byte {
	b := make([]byte, n)
	echo.Fill(b)
	return xdr.AppendOpaque(nil, b)
}

// isAccept reports whether err is an AcceptError with stat.
func isAccept(err error, stat oncrpc.AcceptStat) bool {
	e, ok := errors.AsType[*oncrpc.AcceptError](err)
	return ok && e.Stat == stat
}
