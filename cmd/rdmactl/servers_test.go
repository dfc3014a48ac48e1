package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// nfs4 is a server of NFS version 4 alone.
type nfs4 struct{}

func (nfs4) ServeRPC(_ context.Context, call *oncrpc.Call, _ *oncrpc.Reply) error {
	switch {
	case call.Program != 100003:
		return &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	case call.Version != 4:
		return &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: 4, High: 4}
	}
	return nil
}

// corrupting is an echo service whose answers are wrong from the second on.
type corrupting struct {
	next  *echo.Service
	calls atomic.Int32
}

func (c *corrupting) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	err := c.next.ServeRPC(ctx, call, reply)
	if c.calls.Add(1) == 1 || err != nil {
		return err
	}
	reply.Stream[len(reply.Stream)-1] ^= 1
	for i := range reply.Items {
		reply.Items[i].Buf.Bytes()[reply.Items[i].Len-1] ^= 1
	}
	return nil
}

// silent is a service that does not answer.
type silent struct{}

func (silent) ServeRPC(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) error {
	<-ctx.Done()
	return ctx.Err()
}

// counting tells when it has had a number of calls.
type counting struct {
	next oncrpc.Handler
	mu   sync.Mutex
	n    int
	grew chan struct{} // closed when n grows, and made anew
}

func (c *counting) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	c.mu.Lock()
	c.n++
	close(c.grew)
	c.grew = make(chan struct{})
	c.mu.Unlock()
	return c.next.ServeRPC(ctx, call, reply)
}

// await waits for the n-th call.
func (c *counting) await(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		have, grew := c.n, c.grew
		c.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-grew:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type serversKey struct{}

// server is one that a script started, by the name of its variable.
type server struct {
	calls *counting
	plane *dataplane.Dataplane
}

// serve starts a server on a free port and puts its address into a variable:
// serve VAR KIND [V2]. An echo server speaks version 2 as
// extensions.v2 says, or with continuation.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: serve VAR KIND [V2]")
	}
	var address string
	settings := rpcrdma.DefaultSettings()
	if len(args) == 3 {
		settings.Extensions |= map[string]rpcrdma.Extensions{
			"on": rpcrdma.ExtV2, "required": rpcrdma.ExtV2Only,
			"continuation": rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtContinuation,
		}[args[2]]
	}
	switch kind := args[1]; kind {
	case "echo":
		address = serveRPC(ts, args[0], echo.New(), settings)
	case "nfs4":
		address = serveRPC(ts, args[0], nfs4{}, settings)
	case "nothing":
		address = serveRPC(ts, args[0], &oncrpc.Mux{}, settings)
	case "corrupting":
		address = serveRPC(ts, args[0], &corrupting{next: echo.New()}, settings)
	case "silent":
		address = serveRPC(ts, args[0], silent{}, settings)
	case "rejecting":
		address = serveNoRPC(ts)
	case "tcp-silent", "tcp-closing", "tls":
		address = serveTCP(ts, kind)
	default:
		ts.Fatalf("no server of kind %s", kind)
	}
	ts.Setenv(args[0], address)
}

// serveRPC runs a listener as rdmad does.
func serveRPC(ts *testscript.TestScript, name string, h oncrpc.Handler, settings rpcrdma.Settings) string {
	p, err := softiwarp.New(softiwarp.Config{})
	ts.Check(err)
	d := dataplane.New(dataplane.Config{Resolver: func(dataplane.ConnKey) *rpcrdma.Settings { return &settings }})
	s := &server{calls: &counting{next: h, grew: make(chan struct{})}, plane: d}
	listener, err := d.PrepareListener(context.Background(), dataplane.ListenerConfig{
		Name: "test", Provider: refereetest.Fatal(p), Address: "127.0.0.1:0", Service: "test", Handler: s.calls,
	})
	ts.Check(err)
	listener.Enter()
	d.Start()
	ts.Defer(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut off what hangs
		_ = d.Shutdown(ctx)
		ts.Check(p.Close())
	})
	ts.Value(serversKey{}).(map[string]*server)[name] = s
	return listener.Info().Address.String()
}

// serveNoRPC runs a listener that rejects every connection.
func serveNoRPC(ts *testscript.TestScript) string {
	p, err := softiwarp.New(softiwarp.Config{})
	ts.Check(err)
	l, err := rpcrdma.Listen(context.Background(), p, "127.0.0.1:0", rpcrdma.ListenConfig{})
	ts.Check(err)
	var rejecting sync.WaitGroup
	rejecting.Go(func() {
		for {
			req, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			_ = req.RejectBecause(context.Background(), "it is not for you") // the peer may be gone
		}
	})
	ts.Defer(func() {
		l.Close()
		rejecting.Wait()
		ts.Check(p.Close())
	})
	return l.Addr().String()
}

// serveTCP runs a server that knows nothing of RDMA.
func serveTCP(ts *testscript.TestScript, kind string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	pair, err := authtest.Sign(&x509.Certificate{}, nil)
	ts.Check(err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	var serving sync.WaitGroup
	var conns []net.Conn
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			switch kind {
			case "tcp-closing":
				c.Close()
			case "tls":
				_ = tls.Server(c, config).Handshake() // must fail
				c.Close()
			}
		}
	})
	ts.Defer(func() {
		l.Close()
		serving.Wait()
		for _, c := range conns {
			c.Close()
		}
	})
	return l.Addr().String()
}

// called waits until a server has had a number of calls: called VAR N.
func called(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(ts.Value(serversKey{}).(map[string]*server)[args[0]].calls.await(ctx, n))
}

// cut ends a server's connections: cut VAR.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value(serversKey{}).(map[string]*server)[args[0]].plane
	for _, c := range d.Connections() {
		ts.Check(d.CloseConnection(c.ID))
	}
}
