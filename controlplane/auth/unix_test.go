package auth

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// dialAs connects as another user, which root may be: identities are a
// thread's, and the thread ends with the goroutine that is locked to it.
func dialAs(t *testing.T, network, address string, uid, gid int) net.Conn {
	t.Helper()
	type result struct {
		c   net.Conn
		err error
	}
	dialed := make(chan result)
	go func() {
		runtime.LockOSThread()
		if uid != os.Getuid() {
			for _, call := range [][2]uintptr{{syscall.SYS_SETRESGID, uintptr(gid)}, {syscall.SYS_SETRESUID, uintptr(uid)}} {
				if _, _, errno := syscall.RawSyscall(call[0], call[1], call[1], call[1]); errno != 0 {
					dialed <- result{nil, errno}
					return
				}
			}
		}
		c, err := net.Dial(network, address)
		dialed <- result{c, err}
	}()
	r := <-dialed
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.c
}

// callOver makes one call on a connection that is there.
func (s *served) callOver(t *testing.T, conn net.Conn) Identity {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return conn, nil }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func TestPeerOfUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	p := policy(t, Rules{Group: "60", Rules: []Rule{{Role: Viewer, UIDs: []uint32{4242}}, {Role: Operator, Groups: []string{"70"}}}})
	p.owner = uint32(os.Getuid())
	s := serve(t, "unix", path, Credentials(p, nil, logTo(new(logtest.Log))))
	for file, mode := range map[string]os.FileMode{filepath.Dir(filepath.Dir(path)): 0o755, filepath.Dir(path): 0o755, path: 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	type visitor struct {
		uid, gid int
		want     Role
	}
	clients := []visitor{{os.Getuid(), os.Getgid(), Admin}}
	if os.Getuid() == 0 { // only root can be somebody else
		clients = append(clients, visitor{1000, 4242, Admin}, visitor{4242, 4242, Viewer}, visitor{4243, 70, Operator},
			visitor{4243, 60, Admin}, visitor{4243, 4243, None})
	}
	for _, c := range clients {
		id := s.callOver(t, dialAs(t, "unix", path, c.uid, c.gid))
		uid := fmt.Sprintf("uid %d", c.uid)
		if id.Role != c.want || id.Client != uid || id.Name != uid && !strings.HasPrefix(id.Name, uid+" (") ||
			id.Origin != fmt.Sprintf("unix pid %d", os.Getpid()) {
			t.Errorf("uid %d, gid %d: %+v", c.uid, c.gid, id)
		}
	}
}

func TestGroupsOfTheDatabase(t *testing.T) {
	if got := groupsOf(0); len(got) == 0 || got[0] != 0 {
		t.Errorf("root's groups: %v", got)
	}
	if got := groupsOf(3999999999); got != nil {
		t.Errorf("nobody's groups: %v", got)
	}
	if got := userName(0); got != " (root)" {
		t.Errorf("root's name: %q", got)
	}
}

func TestAnonymous(t *testing.T) {
	s := serve(t, "tcp", "127.0.0.1:0", Credentials(policy(t, Rules{Default: new(Operator)}), nil, logTo(new(logtest.Log))))
	id, err := s.call(t, insecure.NewCredentials())
	if err != nil || id.Name != Anonymous || id.Role != Operator || id.Client != "loopback uid "+strconv.Itoa(os.Getuid()) || !id.Kept || !strings.HasPrefix(id.Origin, "127.0.0.1:") {
		t.Errorf("%+v, %v", id, err)
	}
	if got := Peer(t.Context()); got.Role != None || got.Name != Anonymous {
		t.Errorf("without a client: %+v", got)
	}
}

// TestUsersOfTheLoopback: limits count each user of the loopback separately, and
// only root and rdmad's user may use the places that are kept.
func TestUsersOfTheLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		s := serve(t, "tcp", address, Credentials(policy(t, Rules{}), nil, logTo(new(logtest.Log))))
		for _, uid := range []int{os.Getuid(), 65534} {
			if os.Getuid() != 0 && uid != os.Getuid() {
				continue
			}
			id := s.callOver(t, dialAs(t, "tcp", s.address, uid, uid))
			if want := "loopback uid " + strconv.Itoa(uid); id.Client != want || id.Kept != (uid == os.Getuid()) || id.Role != Admin {
				t.Errorf("%s: %+v, want client %s", address, id, want)
			}
		}
	}
}

func TestClientHosts(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:1": "loopback", "127.9.9.9:1": "loopback", "[::1]:1": "loopback", "[::ffff:127.0.0.1]:1": "loopback",
		"192.0.2.7:1": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		if got := clientHost(textAddr(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }
