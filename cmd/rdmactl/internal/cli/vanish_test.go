package cli

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
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
		a := &app{addr: "here:1", timeout: defaultTimeout}
		conn, err := grpc.NewClient("passthrough:///rdmad", append(a.options(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				nc, err := l.DialContext(ctx)
				closed, end := context.WithCancel(context.Background())
				return vanishing{nc, &gone, closed, end}, err
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		var last time.Time
		err = receive(t.Context(), conn, api.WatchConnections, &rdmadv1.WatchConnectionsRequest{}, func() {}, func(*rdmadv1.WatchConnectionsResponse) error {
			gone.Store(true)
			last = time.Now()
			return nil
		})
		if !wentAway(err) {
			t.Error(err)
		}
		if got, want := a.explain(err), "rdmad at here:1 does not answer any more: does it hang, or is its machine gone?"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if since := lost(err, time.Now()); !since.Equal(last) {
			t.Errorf("nothing was seen since %v, not %v", since, last)
		}
		conn.Close()
		s.Stop()
		<-served
	})
}

// TestHangingRdmad: the connection is there, but rdmad does not answer on it, as when it is stopped (SIGSTOP).
func TestHangingRdmad(t *testing.T) {
	const want = "rdmad at here:1 did not answer within 5s: is it overloaded? set --timeout"
	for cert, creds := range map[string]credentials.TransportCredentials{
		"":       insecure.NewCredentials(),
		"me.pem": credentials.NewTLS(&tls.Config{ServerName: "rdmad"}),
	} {
		t.Run(cert, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var gone atomic.Bool
				gone.Store(true)
				a := &app{addr: "here:1", timeout: defaultTimeout}
				a.tls.Cert = cert
				conn, err := grpc.NewClient("passthrough:///rdmad", append(a.options(creds),
					grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
						nc, other := net.Pipe()
						t.Cleanup(func() { other.Close() })
						closed, end := context.WithCancel(context.Background())
						return vanishing{nc, &gone, closed, end}, nil
					}))...)
				if err != nil {
					t.Fatal(err)
				}
				err = receive(t.Context(), conn, api.WatchConnections, &rdmadv1.WatchConnectionsRequest{}, func() {}, func(*rdmadv1.WatchConnectionsResponse) error { return nil })
				if got := a.explain(err); got != want {
					t.Errorf("got  %s\nwant %s\nof   %v", got, want, err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
