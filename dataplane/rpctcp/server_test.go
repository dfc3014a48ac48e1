package rpctcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func TestProcedures(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New()})
	c := s.dial(t, ClientConfig{})
	if results, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil || len(results) != 0 {
		t.Errorf("NULL: %x, %v", results, err)
	}
	for _, n := range []int{0, 1, 2, 3, 4, 4095, 4096, 4097, 65537, 1 << 20, echo.MaxPayload} {
		if results, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(n)); err != nil || !bytes.Equal(results, opaque(n)) {
			t.Errorf("ECHO of %d bytes: %d bytes, %v", n, len(results), err)
		}
		results, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, uint32(n)))
		if err != nil || !bytes.Equal(results, opaque(n)) {
			t.Errorf("READ of %d bytes: %d bytes, %v", n, len(results), err)
		}
		results, err = echoCall(t.Context(), c, echo.ProcWrite, opaque(n))
		if err != nil || len(results) != 8 || !bytes.Equal(results[:4], xdr.AppendUint32(nil, uint32(n))) {
			t.Errorf("WRITE of %d bytes: %x, %v", n, results, err)
		}
	}
}

func TestRPCErrors(t *testing.T) {
	var mux oncrpc.Mux
	mux.Handle(echo.Program, echo.Version, echo.New())
	mux.Handle(7, 1, handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return errors.New("odd") }))
	mux.Handle(7, 2, handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
		return &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}
	}))
	mux.Handle(7, 3, handlerFunc(func(ctx context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error { // more than its buffer holds
		buf, err := r.Mem.Alloc(ctx, 100)
		r.AppendItem(buf, 1<<20)
		return err
	}))
	s := startTCP(t, Config{Handler: &mux})
	c := s.dial(t, ClientConfig{})
	for _, call := range []struct {
		program, version, procedure uint32
		stat                        oncrpc.AcceptStat
	}{
		{1, 1, 0, oncrpc.ProgUnavail},
		{echo.Program, 2, 0, oncrpc.ProgMismatch},
		{echo.Program, echo.Version, 9, oncrpc.ProcUnavail},
		{echo.Program, echo.Version, echo.ProcEcho, oncrpc.GarbageArgs},
		{7, 1, 0, oncrpc.SystemErr},
		{7, 3, 0, oncrpc.SystemErr},
	} {
		if _, err := c.Call(t.Context(), call.program, call.version, call.procedure, nil, nil); !isAccept(err, call.stat) {
			t.Errorf("%+v: %v", call, err)
		}
	}
	_, err := c.Call(t.Context(), 7, 2, 0, nil, nil)
	if denied, ok := errors.AsType[*oncrpc.DeniedError](err); !ok || denied.Auth != oncrpc.AuthTooWeak {
		t.Errorf("denied call: %v", err)
	}
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if got := s.Stats(); got.Calls != 8 || got.Errors != 7 || got.Accepted != 1 || got.Connections != 1 {
		t.Errorf("statistics %+v", got)
	}
}

// TestPipelined has many callers on one connection, with answers of all sizes.
func TestPipelined(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New()})
	c := s.dial(t, ClientConfig{})
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := range 30 {
				n := (worker*977 + i*4099) % 70000
				want := opaque(n)
				results, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, uint32(n)))
				if err != nil || !bytes.Equal(results, want) {
					t.Errorf("READ of %d bytes: %d bytes, %v", n, len(results), err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.Stats(); got.Calls != 64*30 || got.Errors != 0 || got.BytesSent < 64*30*24 || got.BytesReceived == 0 {
		t.Errorf("statistics %+v", got)
	}
}

// dialRaw gives a bare connection and a reader of its records.
func dialRaw(t *testing.T, s *testServer) (net.Conn, *oncrpc.RecordReader) {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc, oncrpc.NewRecordReader(nc, 1<<20)
}

func readRecord(t *testing.T, r *oncrpc.RecordReader) []byte {
	t.Helper()
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	b, err := r.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReplyBytes pins what stands on the wire, item and roundup included, for
// a call in one fragment, in one-byte fragments and for a denied one.
func TestReplyBytes(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New()})
	nc, r := dialRaw(t, s)
	call := record(7, echo.ProcRead, xdr.AppendUint32(nil, 5))
	want := append(oncrpc.AppendAcceptedReply(nil, 7), opaque(5)...)
	var fragments []byte
	for i, b := range call[oncrpc.RecordMarkSize:] {
		fragments = append(oncrpc.AppendRecordMark(fragments, 1, i == len(call)-oncrpc.RecordMarkSize-1), b)
	}
	denied := record(8, echo.ProcNull, nil)
	denied[oncrpc.RecordMarkSize+11] = 3 // RPC version
	for _, c := range []struct{ call, want []byte }{
		{call, want},
		{fragments, want},
		{denied, oncrpc.AppendDenied(nil, 8, &oncrpc.DeniedError{Stat: oncrpc.RPCMismatch, Low: 2, High: 2})},
		{call, want},
	} {
		if _, err := nc.Write(c.call); err != nil {
			t.Fatal(err)
		}
		if got := readRecord(t, r); !bytes.Equal(got, c.want) {
			t.Errorf("reply %x, want %x", got, c.want)
		}
	}
}

// TestHalfClose sends calls and says that there are no more: all are answered.
func TestHalfClose(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New()})
	nc, r := dialRaw(t, s)
	var calls []byte
	for xid := range uint32(100) {
		calls = append(calls, record(xid, echo.ProcNull, nil)...)
	}
	if _, err := nc.Write(calls); err != nil {
		t.Fatal(err)
	}
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint32]bool)
	for range 100 {
		var h oncrpc.ReplyHeader
		if _, err := oncrpc.DecodeReply(readRecord(t, r), &h); err != nil || seen[h.XID] {
			t.Fatalf("reply %+v, %v", h, err)
		}
		seen[h.XID] = true
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v", err)
	}
	if text := s.log.String(); text != "" {
		t.Errorf("logged %s", text)
	}
}

// TestPeersThatAreCut sends what ends a connection, with one log line, while
// another connection is served on.
func TestPeersThatAreCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		send   []byte
		reason string
	}{
		{"record larger than the limit", oncrpc.AppendRecordMark(nil, 5000, true), "larger than the limit"},
		{"fragments over the limit", append(append(oncrpc.AppendRecordMark(nil, 4000, false), make([]byte, 4000)...), oncrpc.AppendRecordMark(nil, 4000, true)...), "larger than the limit"},
		{"empty fragments", make([]byte, 4*5000), "too many fragments"},
		{"empty record", oncrpc.AppendRecordMark(nil, 0, true), "malformed"},
		{"not a call", append(oncrpc.AppendRecordMark(nil, 8, true), 0, 0, 0, 1, 0, 0, 0, 1), "malformed"},
		{"call cut off", append(oncrpc.AppendRecordMark(nil, 12, true), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2), "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startTCP(t, Config{Handler: echo.New(), MaxRecord: 4096})
			good := s.dial(t, ClientConfig{})
			nc, _ := dialRaw(t, s)
			if _, err := nc.Write(c.send); err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, nc) // until the server closes it
			if _, err := echoCall(t.Context(), good, echo.ProcNull, nil); err != nil {
				t.Errorf("other connection: %v", err)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			s.wantLog(t, "peer="+nc.LocalAddr().String(), c.reason)
			if got := s.Stats(); got.Errors != 1 || got.Connections != 0 {
				t.Errorf("statistics %+v", got)
			}
		})
	}
}

// TestTooManyConnections refuses a newcomer while all others are in use.
func TestTooManyConnections(t *testing.T) {
	for name, limits := range map[string]connlimit.Limits{"in all": {Total: 2}, "of a peer": {PerKey: 2}} {
		t.Run(name, func(t *testing.T) {
			s := startTCP(t, Config{Handler: echo.New(), Places: places(t, limits)})
			for range 2 {
				if _, err := echoCall(t.Context(), s.dial(t, ClientConfig{}), echo.ProcNull, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := echoCall(t.Context(), s.dial(t, ClientConfig{}), echo.ProcNull, nil); err == nil {
				t.Error("a third connection is served")
			}
			s.wantLog(t, "refused", "all 2 connections")
			got := s.Stats()
			if got.Refused[connlimit.Total]+got.Refused[connlimit.PerKey] != 1 || got.Accepted != 2 || got.Connections != 2 {
				t.Errorf("statistics %+v", got)
			}
		})
	}
}

// gate is a handler whose calls wait until it is opened.
type gate struct {
	open         chan struct{}
	entered      chan struct{} // gets one value for each call that began
	serving, top atomic.Int32
}

func newGate() *gate { return &gate{open: make(chan struct{}), entered: make(chan struct{}, 1000)} }

func (g *gate) ServeRPC(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) error {
	now := g.serving.Add(1)
	defer g.serving.Add(-1)
	for top := g.top.Load(); now > top && !g.top.CompareAndSwap(top, now); top = g.top.Load() {
	}
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestCallsInFlight sends more calls than may be in flight: no more than that
// are served at once, and all in the end.
func TestCallsInFlight(t *testing.T) {
	g := newGate()
	s := startTCP(t, Config{Handler: g, MaxCalls: 4})
	c := s.dial(t, ClientConfig{})
	results := make(chan error, 20)
	for range cap(results) {
		go func() {
			_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
			results <- err
		}()
	}
	for range 4 {
		<-g.entered
	}
	close(g.open)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if top := g.top.Load(); top != 4 {
		t.Errorf("%d calls at once, want 4", top)
	}
}

// TestShutdownAnswers lets the calls in flight be answered, and takes no others.
func TestShutdownAnswers(t *testing.T) {
	g := newGate()
	s := startTCP(t, Config{Handler: g})
	c := s.dial(t, ClientConfig{})
	results := make(chan error, 3)
	for range cap(results) {
		go func() {
			_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
			results <- err
		}()
		<-g.entered
	}
	down := make(chan error)
	go func() { down <- s.Shutdown(t.Context()) }()
	<-s.ctx.Done()
	close(g.open)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("call in flight: %v", err)
		}
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err == nil {
		t.Error("a call after Shutdown is answered")
	}
	if _, err := Dial(t.Context(), s.addr, ClientConfig{}); err == nil {
		t.Error("a connection after Shutdown is taken")
	}
	if text := s.log.String(); text != "" {
		t.Errorf("logged %s", text)
	}
}

// TestShutdownWhileClientsMount: a client that has just connected can make its calls when the
// server is shut down. A connection that is older ends at once, and all end soon.
func TestShutdownWhileClientsMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New()})
		old := NewClient(l.dial(t), ClientConfig{})
		defer old.Close()
		time.Sleep(FreshTime)
		fresh := NewClient(l.dial(t), ClientConfig{})
		defer fresh.Close()
		synctest.Wait()
		began, down := time.Now(), make(chan error)
		go func() { down <- s.Shutdown(t.Context()) }()
		<-old.done
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the older connection was kept for %v", waited)
		}
		for range 2 {
			time.Sleep(FreshTime / 4)
			if _, err := echoCall(t.Context(), fresh, echo.ProcNull, nil); err != nil {
				t.Error(err)
			}
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != FreshTime {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

// TestShutdownWhileNewcomerWaits: a client that waits for a place when the server is shut down gets the
// one of a connection that ends, and can make its calls.
func TestShutdownWhileNewcomerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Total: 1})})
		old := NewClient(l.dial(t), ClientConfig{})
		defer old.Close()
		time.Sleep(FreshTime)
		newcomer := NewClient(l.dial(t), ClientConfig{})
		defer newcomer.Close()
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		for range 2 {
			if _, err := echoCall(t.Context(), newcomer, echo.ProcNull, nil); err != nil {
				t.Error(err)
			}
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

// TestCloseWhileNewcomerWaits: Close waits for nobody.
func TestCloseWhileNewcomerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Total: 1})})
		for range 2 {
			c := NewClient(l.dial(t), ClientConfig{})
			defer c.Close()
			synctest.Wait()
		}
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestShutdownOfIdleConnections: at the deadline, a connection that was kept for calls and made none
// is closed, and nothing of it was unfinished.
func TestShutdownOfIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New()})
		c := NewClient(l.dial(t), ClientConfig{})
		defer c.Close()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), FreshTime/2)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-c.done
	})
}

// TestShutdownCuts has the deadline pass with a call in flight.
func TestShutdownCuts(t *testing.T) {
	g := newGate()
	s := startTCP(t, Config{Handler: g})
	c := s.dial(t, ClientConfig{})
	result := make(chan error)
	go func() {
		_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
		result <- err
	}()
	<-g.entered
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("too late")
	cancel(late)
	if err := s.Shutdown(ctx); !errors.Is(err, late) {
		t.Errorf("Shutdown: %v, want %v", err, late)
	}
	if err := <-result; err == nil {
		t.Error("the call was answered")
	}
}

func TestServeAfterShutdown(t *testing.T) {
	s := NewServer(Config{Handler: echo.New()})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l := newPipeListener()
	if err := s.Serve(l); !errors.Is(err, errShutdown) {
		t.Errorf("%v, want %v", err, errShutdown)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
}

// brokenListener fails for good.
type brokenListener struct{ *pipeListener }

var errBroken = errors.New("broken")

func (brokenListener) Accept() (net.Conn, error) { return nil, errBroken }

func TestListenerFails(t *testing.T) {
	s := NewServer(Config{Handler: echo.New()})
	if err := s.Serve(brokenListener{newPipeListener()}); !errors.Is(err, errBroken) {
		t.Errorf("%v, want %v", err, errBroken)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFewAllocations counts those of client and server together, while calls are measured.
func TestFewAllocations(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New(), SlowCalls: newSlowCalls(time.Hour).of})
	c := s.dial(t, ClientConfig{})
	into := make([]byte, 8192)
	for _, call := range []struct {
		name string
		proc uint32
		args []byte
	}{
		{"NULL", echo.ProcNull, nil},
		{"READ 4 KiB", echo.ProcRead, xdr.AppendUint32(nil, 4096)},
		{"WRITE 4 KiB", echo.ProcWrite, opaque(4096)},
		{"ECHO 4 KiB", echo.ProcEcho, opaque(4096)},
	} {
		ctx := t.Context()
		var err error
		do := func() {
			if _, e := c.Call(ctx, echo.Program, echo.Version, call.proc, call.args, into); e != nil {
				err = e
			}
		}
		for range 2 * DefaultMaxCalls { // each call's storage grows once
			do()
		}
		if allocs := testing.AllocsPerRun(200, do); allocs > 0 || err != nil {
			t.Errorf("%s: %v allocations, want none; %v", call.name, allocs, err)
		}
	}
}

func ExampleServer() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := NewServer(Config{Handler: echo.New()})
	go s.Serve(l)
	c, err := Dial(context.Background(), l.Addr().String(), ClientConfig{})
	if err != nil {
		panic(err)
	}
	args := xdr.AppendString(nil, "hello")
	results, err := c.Call(context.Background(), echo.Program, echo.Version, echo.ProcEcho, args, nil)
	fmt.Printf("%q %v\n", results, err)
	c.Close()
	s.Shutdown(context.Background())
	// Output: "\x00\x00\x00\x05hello\x00\x00\x00" <nil>
}
