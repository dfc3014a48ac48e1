package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const otherUser = 40000

// users are how a test is several users.
type users struct {
	kernel auth.Kernel // nil is that of the machine
	dial   func(t *testing.T, network, address string, uid int) net.Conn
}

// everyUsers are those who are said to be others by a kernel that believes their
// addresses and, where this process is root, those who are.
func everyUsers() map[string]users {
	all := map[string]users{"claimed": {believer{}, dialFrom}}
	if os.Getuid() == 0 {
		all["real"] = users{nil, dialAs}
	}
	return all
}

// believer takes clients for the users that their addresses name.
type believer struct{}

func (believer) Peer(c *net.UnixConn) (*unix.Ucred, error) {
	var uid, serial uint32
	if n, _ := fmt.Sscanf(c.RemoteAddr().String(), "@user-%d-%d", &uid, &serial); n < 2 {
		uid = 0
	}
	return &unix.Ucred{Uid: uid, Gid: uid}, nil
}

func (believer) Owner(local, _ net.Addr) (uid uint32, ok bool) {
	ip := local.(*net.TCPAddr).IP.To4()
	if ip[1] == 0 {
		return 0, true
	}
	return uint32(ip[2])<<8 | uint32(ip[3]), true
}

var serial atomic.Int64

// dialFrom connects from an address that names a user.
func dialFrom(t *testing.T, network, address string, uid int) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(uid>>8), byte(uid))}}
	if network == "unix" {
		d.LocalAddr = &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@user-%d-%d-%d", uid, serial.Add(1), os.Getpid())}
	}
	c := have(d.Dial(network, address))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// dialAs connects as a user. Credentials belong to a thread. The goroutine is
// locked to its thread, so the thread ends with it.
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

// over makes a gRPC client that uses an existing connection.
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
		must(t, os.Chmod(d, 0o755))
	}
	return dir
}

// eachWay calls a test with a control plane on a socket and on the loopback, for
// all users, and with a client of root.
func eachWay(t *testing.T, limits connlimit.Limits, test func(t *testing.T, w *way)) {
	viewer := auth.Viewer
	for name, u := range everyUsers() {
		for network, listen := range map[string]string{"unix": "unix://" + filepath.Join(openTo(t), "control"), "tcp": "127.0.0.1:0"} {
			t.Run(name+"/"+network, func(t *testing.T) {
				w := &way{network: network, users: u, places: grpcapi.NewPlaces(limits)}
				access := controlplane.Access{Rules: auth.Rules{Default: &viewer, Kernel: u.kernel}, Places: w.places}
				c, root := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: listen, Access: access})
				w.root, w.address = root, strings.TrimPrefix(c.Addr(), "unix://")
				test(t, w)
			})
		}
	}
}

// way is a way to a control plane.
type way struct {
	network, address string
	users            users
	places           *grpcapi.Places
	root             *grpc.ClientConn
}

func (w *way) dial(t *testing.T, uid int) net.Conn {
	t.Helper()
	return w.users.dial(t, w.network, w.address, uid)
}

// watchAs has a user open a stream, so that the connection is in use.
func (w *way) watchAs(t *testing.T, uid int) error {
	t.Helper()
	stream, err := healthpb.NewHealthClient(over(t, w.dial(t, uid))).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// TestOneUserDoesNotLockOutAdmins has a user use more connections than there
// are places. It gets its share; root, and a third user, get in at once.
func TestOneUserDoesNotLockOutAdmins(t *testing.T) {
	eachWay(t, connlimit.Limits{Total: 32, PerKey: 8, Reserved: 4}, func(t *testing.T, w *way) {
		refused := 0
		for range 40 {
			err := w.watchAs(t, otherUser)
			if err == nil {
				continue
			}
			refused++
			if want := "all 8 connections of the control plane allowed to "; refused == 1 && !strings.Contains(err.Error(), want) {
				t.Fatalf("refused with %v, want %s", err, want)
			}
		}
		if refused != 32 {
			t.Errorf("%d connections of one user were refused, want 32", refused)
		}
		for uid := range 6 { // others fill what isn't kept
			for range 8 {
				_ = w.watchAs(t, 50000+uid)
			}
		}
		if err := getStatus(t, w.root); err != nil {
			t.Errorf("root: %v", err)
		}
		if s := w.places.Clients.Stats(); s.Held != 29 || s.Reserved != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestOneUserDoesNotHoldAllStreams has a user open more streams on one connection than it may
// have. It gets its share; another user gets what is left but for the part of the admins.
func TestOneUserDoesNotHoldAllStreams(t *testing.T) {
	for name, open := range map[string]func(context.Context, *grpc.ClientConn) (grpc.ClientStream, error){
		"health": func(ctx context.Context, c *grpc.ClientConn) (grpc.ClientStream, error) {
			return healthpb.NewHealthClient(c).Watch(ctx, &healthpb.HealthCheckRequest{})
		},
		"connections": func(ctx context.Context, c *grpc.ClientConn) (grpc.ClientStream, error) {
			return rdmadv1.NewConnectionServiceClient(c).WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{})
		},
		"settings": func(ctx context.Context, c *grpc.ClientConn) (grpc.ClientStream, error) {
			return rdmadv1.NewSettingsServiceClient(c).WatchSettings(ctx, &rdmadv1.WatchSettingsRequest{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, connlimit.Limits{Total: 8, PerKey: 4, Reserved: 2}, func(t *testing.T, w *way) {
				begun := func(c *grpc.ClientConn, reason string) (n int) {
					t.Helper()
					for ; n < 80; n++ {
						err := begins(open(t.Context(), c))
						if status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), reason) {
							return n
						}
						must(t, err)
					}
					return n
				}
				one, two := over(t, w.dial(t, otherUser)), over(t, w.dial(t, 50000))
				if n, m := begun(one, "that one client may have"), begun(two, "that are not kept for admins"); n != 32 || m != 16 {
					t.Errorf("%d and %d streams, want 32 and 16", n, m)
				}
				if err := begins(open(t.Context(), w.root)); err != nil {
					t.Errorf("root: %v", err)
				}
			})
		})
	}
}

// begins returns the error with which a stream ends in place of its beginning, or nil.
func begins(s grpc.ClientStream, err error) error {
	if err != nil {
		return err
	}
	if header, err := s.Header(); header != nil || err != nil {
		return err
	}
	return s.RecvMsg(new(emptypb.Empty))
}

// TestUserDoesNotLockOutItself has a user hold connections without end, silent
// ones and idle ones. Each time the user's next one is served, and none of another
// user goes for it.
func TestUserDoesNotLockOutItself(t *testing.T) {
	limits := connlimit.Limits{Total: 32, PerKey: 4, KeyGrace: 1, Reserved: 4}
	eachWay(t, limits, func(t *testing.T, w *way) {
		third := over(t, w.dial(t, 50000))
		must(t, getStatus(t, third))
		for i := range 40 {
			w.dial(t, otherUser) // says nothing
			if err := getStatus(t, over(t, w.dial(t, otherUser))); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
		if err := getStatus(t, third); err != nil || third.GetState() != connectivity.Ready {
			t.Errorf("another user: %v, %v", err, third.GetState())
		}
		// A connection may be refused while the user's others are just beginning; gRPC tries again.
		if s := w.places.Clients.Stats(); s.Held > limits.PerKey+1 || s.Evicted[connlimit.PerKey] < 40-uint64(limits.PerKey) {
			t.Errorf("%+v", s)
		}
	})
}

// TestPingFlood: a client that only pings gets GOAWAY with ENHANCE_YOUR_CALM, and
// its connection is closed.
func TestPingFlood(t *testing.T) {
	_, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0"})
	c := have(net.Dial("tcp", strings.TrimPrefix(client.Target(), "passthrough:///")))(t)
	defer c.Close()
	f := http2.NewFramer(c, c)
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	must(t, f.WriteSettings())
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
		t.Errorf("%d pings were answered, ENHANCE_YOUR_CALM: %v", acks, calm)
	}
}
