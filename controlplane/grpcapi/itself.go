package grpcapi

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// checker is the client of Check: no other client's limits have an effect on it.
var checker = auth.Identity{Name: auth.Daemon, Origin: "itself", Role: auth.Viewer, Client: "itself"}

// Check reports whether the API serves, by a request on a connection within the process:
// through gate and handler, whatever identity and number outside clients have. The error means
// that the server did not answer before ctx ended, is ending, or does not serve yet. Conditions
// have no effect: a restart repairs none of them.
func (s *Server) Check(ctx context.Context) error {
	c, err := s.As(checker)
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	defer c.Close()
	r, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{Service: rdmadv1.StatusService_ServiceDesc.ServiceName})
	if status.Code(err) == codes.ResourceExhausted { // an answer
		return nil
	}
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	if r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("control plane: its health is %v", r.GetStatus())
	}
	return nil
}

// As makes a connection within this process for a client that another server of this process
// has identified. It has only the rights of that client.
func (s *Server) As(client auth.Identity) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///itself", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.itself.dial(ctx, client) }))
}

// identified is a connection within this process whose client is known.
type identified struct {
	net.Conn
	client auth.Identity
}

// itself is a listener that only this process can reach. Its connections are identified.
type itself struct {
	dialed chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func newItself() *itself { return &itself{dialed: make(chan net.Conn), done: make(chan struct{})} }

// dial makes a connection, once Accept takes its other end.
func (l *itself) dial(ctx context.Context, client auth.Identity) (_ net.Conn, err error) {
	here, there := net.Pipe()
	select {
	case l.dialed <- &identified{there, client}:
		return here, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-l.done:
		err = net.ErrClosed
	}
	here.Close()
	there.Close()
	return nil, err
}

// Accept implements net.Listener.
func (l *itself) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialed:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *itself) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *itself) Addr() net.Addr { return &net.UnixAddr{Name: "itself", Net: "unix"} }
