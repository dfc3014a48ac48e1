package grpcapi

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Check reports whether the API serves, by a request on a connection within the process:
// through handshake, gate and handler, whatever identity and number outside clients have. The
// error means that the server did not answer before ctx ended, is ending, or does not serve
// yet. Conditions have no effect: a restart repairs none of them.
func (s *Server) Check(ctx context.Context) error {
	c, err := inProcess(s.itself.dial)
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	defer c.Close()
	r, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{Service: rdmadv1.StatusService_ServiceDesc.ServiceName})
	if status.Code(err) == codes.ResourceExhausted { // an answer: others of this user have used up its rate
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

// inProcess makes a client in this process.
func inProcess(dial func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///itself", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
}

// As makes a connection within this process for a client that another server of this process
// has identified. It has only the rights of that client.
func (s *Server) As(client auth.Identity) (*grpc.ClientConn, error) {
	return inProcess(func(ctx context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		if err := s.itself.hand(ctx, &identified{there, client}); err != nil {
			here.Close()
			there.Close()
			return nil, err
		}
		return here, nil
	})
}

// identified is a connection within this process whose client is known.
type identified struct {
	net.Conn
	client auth.Identity
}

// itself is a listener that only this process can reach. Its connections are
// pairs of Unix sockets, so that the kernel says whose they are, or identified.
type itself struct {
	dialed chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func newItself() *itself { return &itself{dialed: make(chan net.Conn), done: make(chan struct{})} }

// dial makes a connection, once Accept takes its other end.
func (l *itself) dial(ctx context.Context) (net.Conn, error) {
	here, there, err := socketpair()
	if err != nil {
		return nil, err
	}
	if err := l.hand(ctx, there); err != nil {
		here.Close()
		there.Close()
		return nil, err
	}
	return here, nil
}

// hand gives a connection to Accept.
func (l *itself) hand(ctx context.Context, c net.Conn) error {
	select {
	case l.dialed <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return net.ErrClosed
	}
}

func socketpair() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "itself")
		c, copyErr := net.FileConn(f) // a copy
		f.Close()
		if copyErr != nil {
			err = copyErr
			continue
		}
		ends[i] = c
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
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
