package controlplane_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const otherUser = 65534

// dialAs connects as a user. Credentials are a thread's, and the thread ends
// with the goroutine that is locked to it.
func dialAs(t *testing.T, network, address string, uid int) net.Conn {
	t.Helper()
	type result struct {
		c   net.Conn
		err error
	}
	dialed := make(chan result)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			dialed <- result{nil, errno}
			return
		}
		c, err := net.Dial(network, address)
		dialed <- result{c, err}
	}()
	r := <-dialed
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.c.Close() })
	return r.c
}

// over makes gRPC calls on a connection that is there.
func over(t *testing.T, conn net.Conn) *grpc.ClientConn {
	t.Helper()
	dialed := false
	c, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if dialed {
				return nil, errors.New("dialed again")
			}
			dialed = true
			return conn, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func getStatus(t *testing.T, c *grpc.ClientConn) error {
	t.Helper()
	_, err := rdmadv1.NewStatusServiceClient(c).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
	return err
}

// openTo makes a directory that every user may enter.
func openTo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOneUserDoesNotLockOutAdmins has a user open more connections than there
// are places. It gets its share; root, and a third user, get in at once.
func TestOneUserDoesNotLockOutAdmins(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can be somebody else
	}
	viewer := auth.Viewer
	for _, listen := range []string{"unix://" + filepath.Join(openTo(t), "control"), "127.0.0.1:0"} {
		plane := &planetest.Plane{}
		clients := connlimit.New(time.Now(), connlimit.Config{Name: "the control plane", Limits: connlimit.Limits{Total: 32, PerKey: 8, Reserved: 4}})
		c, root := serve(t, controlplane.Config{
			Dataplane: plane, Listen: listen, Access: controlplane.Access{Rules: auth.Rules{Default: &viewer}, Clients: clients},
		})
		network, address := "tcp", c.Addr()
		if path, ok := strings.CutPrefix(address, "unix://"); ok {
			network, address = "unix", path
		}
		refused := 0
		for range 40 {
			err := getStatus(t, over(t, dialAs(t, network, address, otherUser)))
			if err == nil {
				continue
			}
			refused++
			if want := "all 8 connections of the control plane allowed to "; refused == 1 && !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: refused with %v, want %s", listen, err, want)
			}
		}
		if refused != 32 {
			t.Errorf("%s: %d connections of one user were refused, want 32", listen, refused)
		}
		for uid := range 6 { // others fill what isn't kept
			for range 8 {
				_ = getStatus(t, over(t, dialAs(t, network, address, 50000+uid)))
			}
		}
		if err := getStatus(t, root); err != nil {
			t.Errorf("%s: root: %v", listen, err)
		}
		if s := clients.Stats(); s.Held != 29 || s.Reserved != 1 {
			t.Errorf("%s: %+v", listen, s)
		}
	}
}

// TestIdleClientIsClosed: one that has made calls, one that hasn't, and one
// that watches, which is not idle.
func TestIdleClientIsClosed(t *testing.T) {
	clients := connlimit.New(time.Now(), connlimit.Config{Limits: grpcapi.DefaultClients()})
	_, idle := serve(t, controlplane.Config{
		Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Access: controlplane.Access{Clients: clients},
	})
	silent, err := net.Dial("tcp", strings.TrimPrefix(idle.Target(), "passthrough:///"))
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
	if err := getStatus(t, idle); err != nil {
		t.Fatal(err)
	}
	watching, err := grpc.NewClient(idle.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Close()
	stream, err := healthpb.NewHealthClient(watching).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	clients.Age(time.Now().Add(grpcapi.DefaultClients().Idle))
	if !idle.WaitForStateChange(t.Context(), connectivity.Ready) {
		t.Error("the idle client's connection is still up")
	}
	if _, err := io.Copy(io.Discard, silent); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if s := clients.Stats(); s.Held != 1 || s.Evicted[connlimit.Idle]+s.Evicted[connlimit.HalfOpen] != 2 {
		t.Errorf("%+v", s)
	}
	if err := getStatus(t, watching); err != nil {
		t.Errorf("the one that watches: %v", err)
	}
	if err := getStatus(t, idle); err != nil {
		t.Errorf("the idle one comes back: %v", err)
	}
}

// TestPingFlood: a client that only pings is told to calm down, and closed.
func TestPingFlood(t *testing.T) {
	_, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0"})
	c, err := net.Dial("tcp", strings.TrimPrefix(client.Target(), "passthrough:///"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f := http2.NewFramer(c, c)
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for f.WritePing(false, [8]byte{}) == nil {
		}
	}()
	acks, calm := 0, false
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			break
		}
		switch frame := frame.(type) {
		case *http2.PingFrame:
			acks++
		case *http2.GoAwayFrame:
			calm = calm || frame.ErrCode == http2.ErrCodeEnhanceYourCalm
		}
	}
	if !calm || acks > 10 {
		t.Errorf("%d pings were answered, told to calm down: %v", acks, calm)
	}
}
