package cli

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// vanishing is a connection on which nothing comes and goes any more once the other end is gone.
type vanishing struct {
	net.Conn
	gone   *atomic.Bool
	closed context.Context // by this end
	close  context.CancelFunc
}

func (v vanishing) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if v.gone.Load() {
		<-v.closed.Done()
		return 0, net.ErrClosed
	}
	return n, err
}

func (v vanishing) Write(p []byte) (int, error) {
	if v.gone.Load() {
		return len(p), nil
	}
	return v.Conn.Write(p)
}

func (v vanishing) Close() error {
	v.close()
	return v.Conn.Close()
}

// quiet has one connection, on which nothing changes.
type quiet struct {
	rdmadv1.UnimplementedConnectionServiceServer
}

func (quiet) WatchConnections(_ *rdmadv1.WatchConnectionsRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchConnectionsResponse]) error {
	if err := stream.Send(&rdmadv1.WatchConnectionsResponse{Type: rdmadv1.WatchConnectionsResponse_EXISTING}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// TestVanishedRdmad: a watch notices that the machine of rdmad is not there any more, though nothing ends the connection.
func TestVanishedRdmad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(64 << 10)
		s, served := grpc.NewServer(), make(chan error, 1)
		rdmadv1.RegisterConnectionServiceServer(s, quiet{})
		go func() { served <- s.Serve(l) }()
		var gone atomic.Bool
		a := &app{timeout: defaultTimeout}
		conn, err := grpc.NewClient("passthrough:///rdmad", append(a.options(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				nc, err := l.DialContext(ctx)
				closed, end := context.WithCancel(context.Background())
				return vanishing{nc, &gone, closed, end}, err
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		err = receive(t.Context(), conn, api.WatchConnections, &rdmadv1.WatchConnectionsRequest{}, func() {}, func(*rdmadv1.WatchConnectionsResponse) error {
			gone.Store(true)
			return nil
		})
		if !wentAway(err) {
			t.Error(err)
		}
		conn.Close()
		s.Stop()
		<-served
	})
}
