package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	grpcauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// openedPort is a gRPC server whose connections take places, as those of Server do.
type openedPort struct {
	*doorman
	listener *held

	mu    sync.Mutex
	conns []*inUse
}

// openPort serves health checks without TLS. handled is called after the handler of each
// request.
func openPort(t *testing.T, limits connlimit.Limits, handled func()) *openedPort {
	t.Helper()
	policy, err := auth.NewPolicy(auth.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p := &openedPort{
		doorman:  &doorman{auth.Credentials(policy, nil, log), NewPlaces(limits), nil, log},
		listener: &held{Listener: l, waiting: make(chan struct{}, 16)},
	}
	server := grpc.NewServer(grpc.Creds(p), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ChainUnaryInterceptor(grpcauth.UnaryServerInterceptor(placed), func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			defer handled()
			return next(ctx, req)
		}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error)
	go func() { served <- server.Serve(port.Listen(p.listener, p.places.arriving, nil, log)) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

// ServerHandshake implements credentials.TransportCredentials.
func (p *openedPort) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.doorman.ServerHandshake(c)
	if u, ok := conn.(*inUse); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns = append(p.conns, u)
	}
	return conn, info, err
}

// rest waits until no connection is in use: the server knows a little later than its client
// that a reply is written. It returns all connections that had places, in order.
func (p *openedPort) rest() []*inUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.conns {
		for u.place.Busy() {
			time.Sleep(time.Millisecond)
		}
	}
	return p.conns
}

func (p *openedPort) address() string { return p.listener.Addr().String() }

func (p *openedPort) client(t *testing.T) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+p.address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (p *openedPort) check(t *testing.T, c *grpc.ClientConn) error {
	t.Helper()
	_, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{})
	return err
}

// holder wants a place, and has nothing to do.
type holder struct{}

func (holder) Busy() bool               { return false }
func (holder) Evict(connlimit.Eviction) {}

// admit takes a place for another client, for good.
func (p *openedPort) admit(now time.Time) (*connlimit.Place, error) {
	return p.places.Clients.Admit(now, connlimit.Name("newcomer"), connlimit.Ordinary, holder{})
}

// TestIdlestClientGoes: the client whose last request ended first loses its place,
// not the one that connected first.
func TestIdlestClientGoes(t *testing.T) {
	p := openPort(t, connlimit.Limits{Total: 2}, func() {})
	first, second := p.client(t), p.client(t)
	for _, c := range []*grpc.ClientConn{first, second, first} {
		if err := p.check(t, c); err != nil {
			t.Fatal(err)
		}
		p.rest()
	}
	if _, err := p.admit(time.Now().Add(connlimit.Grace)); err != nil {
		t.Fatal(err)
	}
	gone := make(chan string, 2)
	for who, c := range map[string]*grpc.ClientConn{"first": first, "second": second} {
		go func() {
			if c.WaitForStateChange(t.Context(), connectivity.Ready) {
				gone <- who
			}
		}()
	}
	if who := <-gone; who != "second" {
		t.Errorf("the %s client lost its place", who)
	}
}

// TestIdleClientIsClosed: a client that has made calls is closed when it is idle,
// and so is one that has made none. A client that watches is not idle.
func TestIdleClientIsClosed(t *testing.T) {
	p := openPort(t, DefaultClients(), func() {})
	idle, watching := p.client(t), p.client(t)
	silent, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := silent.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := http2.NewFramer(silent, nil).WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if _, err := http2.NewFramer(nil, silent).ReadFrame(); err != nil { // it has its place
		t.Fatal(err)
	}
	if err := p.check(t, idle); err != nil {
		t.Fatal(err)
	}
	p.rest()
	stream, err := healthpb.NewHealthClient(watching).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	p.places.Clients.Age(time.Now().Add(DefaultClients().Idle))
	if !idle.WaitForStateChange(t.Context(), connectivity.Ready) {
		t.Error("the idle client's connection is still up")
	}
	if _, err := io.Copy(io.Discard, silent); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if s := p.places.Clients.Stats(); s.Held != 1 || s.Evicted[connlimit.Idle]+s.Evicted[connlimit.HalfOpen] != 2 {
		t.Errorf("%+v", s)
	}
	if err := p.check(t, watching); err != nil {
		t.Errorf("the one that watches: %v", err)
	}
	if err := p.check(t, idle); err != nil {
		t.Errorf("the idle one comes back: %v", err)
	}
}
