package rpcbind

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// fake is an rpcbind that does as it is told, in memory, so that tests can run
// under synctest's clock. It implements net.Listener for its server.
type fake struct {
	server *rpctcp.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	list      []mapping
	low, high uint32
	dead      map[string]bool         // networks on which it does not listen
	dialled   []time.Time             // of all attempts
	calls     []string                // SET, UNSET and DUMP, since last asked
	answer    map[uint32]func() error // of a procedure, in place of the right one
	raw       map[uint32][]byte       // results of a procedure, in their place
	hung      chan struct{}           // calls wait for it, if not nil
}

// newFake starts a fake that a test ends.
func newFake(t *testing.T) *fake {
	f := &fake{
		conns: make(chan net.Conn), closed: make(chan struct{}), low: 2, high: version4,
		dead: map[string]bool{}, answer: map[uint32]func() error{}, raw: map[uint32][]byte{},
	}
	f.server = rpctcp.NewServer(rpctcp.Config{Handler: f})
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(f) }()
	synctest.Wait()
	t.Cleanup(func() {
		if f.hung != nil {
			close(f.hung)
		}
		f.server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fake) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

func (f *fake) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *fake) Addr() net.Addr { return &net.UnixAddr{Name: "fake", Net: "unix"} }

// dial implements dialFunc.
func (f *fake) dial(_ context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dialled = append(f.dialled, time.Now())
	dead := f.dead[network]
	f.mu.Unlock()
	if dead {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	f.conns <- far
	return near, nil
}

// ServeRPC answers as rpcbind does.
func (f *fake) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hung != nil {
		f.mu.Unlock()
		<-f.hung
		f.mu.Lock()
	}
	if call.Program != program {
		return &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	}
	if call.Version < f.low || call.Version > f.high {
		return &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: f.low, High: f.high}
	}
	f.calls = append(f.calls, map[uint32]string{procSet: "SET", procUnset: "UNSET", procDump: "DUMP"}[call.Procedure])
	if answer := f.answer[call.Procedure]; answer != nil {
		return answer()
	}
	if raw := f.raw[call.Procedure]; raw != nil {
		reply.Stream = append(reply.Stream, raw...)
		return nil
	}
	if call.Procedure == procDump {
		reply.Stream = appendList(reply.Stream, f.list)
		return nil
	}
	d := xdr.NewDecoder(call.Args.Stream)
	m := decodeMapping(&d)
	if ended(&d) != nil {
		return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	}
	reply.Stream = xdr.AppendBool(reply.Stream, f.change(call.Procedure, m))
	return nil
}

// change does SET and UNSET. f is locked.
func (f *fake) change(proc uint32, m mapping) bool {
	at := slices.IndexFunc(f.list, func(have mapping) bool {
		return have.program == m.program && have.version == m.version && have.netid == m.netid
	})
	switch {
	case proc == procUnset && at >= 0:
		f.list = slices.Delete(f.list, at, at+1)
	case proc == procSet && at < 0:
		f.list = append(f.list, m)
	case proc == procSet:
		return f.list[at].address == m.address
	}
	return true
}

// appendList encodes the results of DUMP.
func appendList(dst []byte, list []mapping) []byte {
	for i := range list {
		dst = appendMapping(xdr.AppendBool(dst, true), &list[i])
	}
	return xdr.AppendBool(dst, false)
}

// attempts gives the times since began at which somebody looked for it, who
// found that it is dead on both networks.
func (f *fake) attempts(began time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for i := 0; i < len(f.dialled); i += 2 {
		out = append(out, f.dialled[i].Sub(began).String())
	}
	return strings.Join(out, " ")
}

// with changes the fake.
func (f *fake) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// made gives the calls made since it was last asked, and forgets them.
func (f *fake) made() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.calls = nil }()
	return strings.Join(f.calls, " ")
}

// has lists what is registered, as "netid address".
func (f *fake) has() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, m := range f.list {
		out = append(out, m.netid+" "+m.address)
	}
	return strings.Join(out, ", ")
}

// book is a log by its lines: "LEVEL message", with the netid or the error.
type book struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // gets a value with each line, if not nil
}

func (b *book) Enabled(context.Context, slog.Level) bool { return true }
func (b *book) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *book) WithGroup(string) slog.Handler            { return b }

func (b *book) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "netid" {
			line += " " + a.Value.String()
		}
		return true
	})
	b.mu.Lock()
	b.lines = append(b.lines, line)
	b.mu.Unlock()
	if b.more != nil {
		b.more <- struct{}{}
	}
	return nil
}

// told gives the lines since it was last asked, and forgets them.
func (b *book) told() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.lines = nil }()
	return strings.Join(b.lines, "\n")
}

// scene is a Registrar of nfs's registration on a fake, under synctest.
type scene struct {
	*fake
	*Registrar
	log book
}

// play runs a test with a fake that prepare has seen to, and a Registrar that
// was started and has had its first look.
func play(t *testing.T, prepare func(*fake), test func(*testing.T, *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{fake: newFake(t)}
		if prepare != nil {
			prepare(s.fake)
		}
		var err error
		s.Registrar, err = New(Config{Registrations: []Registration{nfs("127.0.0.1:20049")}, Logger: slog.New(&s.log)})
		if err != nil {
			t.Fatal(err)
		}
		s.Registrar.dial = s.fake.dial
		s.Start()
		synctest.Wait()
		test(t, s)
		s.end(t)
	})
}

// end closes the Registrar if the test has not.
func (s *scene) end(t *testing.T) {
	t.Helper()
	if err := s.Registrar.Close(context.WithoutCancel(t.Context())); err != nil && !errors.As(err, new(*UnreachableError)) {
		t.Errorf("Close at the end: %v", err)
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
	}
}
