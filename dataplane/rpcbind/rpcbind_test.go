package rpcbind

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/rpcbind/rpcbindtest"
)

// everything is what an nfs service on all addresses registers.
var everything = []Registration{
	nfs("[::]:20049"),
	{Program: 100005, Version: 3, Transport: TCP, Address: netip.MustParseAddrPort("[::]:20048")},
}

const everythingByRoot = `100003 3 rdma6 ::.78.81 superuser
100003 3 rdma 0.0.0.0.78.81 superuser
100005 3 tcp6 ::.78.80 superuser
100005 3 tcp 0.0.0.0.78.80 superuser`

// TestRPCBind has the real rpcbind at work.
func TestRPCBind(t *testing.T) {
	host := rpcbindtest.Isolate(t)
	if host == nil {
		return
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *real)
	}{
		{"register", testRegister},
		{"away", testAway},
		{"warm start", testWarmStart},
		{"others", testOthers},
		{"another user", testAnotherUser},
		{"TCP", testTCP},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, &real{host: host}) })
	}
}

// real is a Registrar on the real rpcbind.
type real struct {
	host *rpcbindtest.Host
	*Registrar
	log book
}

// start makes and starts the Registrar.
func (r *real) start(t *testing.T, cfg Config) {
	t.Helper()
	r.startBy(t, cfg, new(net.Dialer).DialContext)
}

// startBy has it connect by dial.
func (r *real) startBy(t *testing.T, cfg Config, dial dialFunc) {
	t.Helper()
	r.log.more = make(chan struct{}, 1000)
	cfg.Logger = slog.New(&r.log)
	cfg.Interval = 10 * time.Millisecond
	var err error
	if r.Registrar, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	r.dial = dial
	r.Start()
	t.Cleanup(func() { r.Close(context.Background()) })
}

// close closes the Registrar, which must succeed.
func (r *real) close(t *testing.T) {
	t.Helper()
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// await waits for n log lines with a text, and forgets what was logged.
func (r *real) await(t *testing.T, n int, text string) {
	t.Helper()
	hung := time.NewTimer(30 * time.Second)
	defer hung.Stop()
	var all string
	for strings.Count(all, text) < n {
		select {
		case <-r.log.more:
			all += r.log.told() + "\n"
		case <-hung.C:
			t.Fatalf("not %d times %q:\n%s", n, text, all)
		}
	}
}

func (r *real) wantRegistered(t *testing.T, what, list string) {
	t.Helper()
	want(t, what, strings.Join(r.host.Registered(t), "\n"), list)
}

// testRegister registers, has rpcbind forget it, and unregisters.
func testRegister(t *testing.T, r *real) {
	rpcbind := r.host.Start(t)
	r.start(t, Config{Registrations: everything})
	r.await(t, 4, "registered with rpcbind")
	r.wantRegistered(t, "registered", everythingByRoot)
	// Clients that ask the portmapper of old find MOUNT too.
	if old := r.host.Info(t, "-p"); !strings.Contains(strings.Join(strings.Fields(old), " "), "100005 3 tcp 20048 ") {
		t.Errorf("rpcinfo -p:\n%s", old)
	}
	rpcbind.Kill()
	r.await(t, 1, "cannot register")
	r.host.Start(t)
	r.await(t, 4, "registered with rpcbind")
	r.wantRegistered(t, "registered after a restart", everythingByRoot)
	r.close(t)
	r.wantRegistered(t, "registered after Close", "")
}

// testAway has rpcbind come later and leave earlier.
func testAway(t *testing.T, r *real) {
	r.start(t, Config{Registrations: everything})
	r.await(t, 1, "cannot register")
	rpcbind := r.host.Start(t)
	r.await(t, 4, "registered with rpcbind")
	r.wantRegistered(t, "registered", everythingByRoot)
	rpcbind.Stop()
	if err := r.Close(t.Context()); !errors.As(err, new(*UnreachableError)) || !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("Close: %v", err)
	}
}

// testWarmStart has rpcbind keep what is registered over a restart, in which
// the Registrar ends and another one comes.
func testWarmStart(t *testing.T, r *real) {
	rpcbind := r.host.Start(t, "-w")
	r.start(t, Config{Registrations: everything})
	r.await(t, 4, "registered with rpcbind")
	rpcbind.Stop()
	if err := r.Close(t.Context()); !errors.As(err, new(*UnreachableError)) {
		t.Errorf("Close: %v", err)
	}
	r.host.Start(t, "-w")
	r.wantRegistered(t, "kept", everythingByRoot)
	r.start(t, Config{Registrations: everything})
	r.await(t, 4, "registered with rpcbind")
	r.wantRegistered(t, "registered", everythingByRoot)
	r.close(t)
	r.wantRegistered(t, "registered after Close", "")
}

// testOthers has others registered where we want to be and beside it.
func testOthers(t *testing.T, r *real) {
	r.host.Start(t)
	var taken, beside = other, other
	beside.version = 4
	alter(t, (*client).set, &taken)
	alter(t, (*client).set, &beside)
	const othersToo = "100003 3 rdma 127.0.0.1.8.1 superuser\n100003 4 rdma 127.0.0.1.8.1 superuser"
	r.start(t, Config{Registrations: []Registration{nfs("127.0.0.1:20049")}})
	r.await(t, 1, "rpcbind has program 100003 version 3 on rdma at 127.0.0.1:2049 already, registered by superuser")
	r.wantRegistered(t, "registered", othersToo)
	r.host.Info(t, "-d", "100003", "3") // as the log advises
	r.await(t, 1, "registered with rpcbind")
	r.wantRegistered(t, "registered once it is gone", "100003 4 rdma 127.0.0.1.8.1 superuser\n100003 3 rdma 127.0.0.1.78.81 superuser")
	takeOver(t, &taken)
	r.close(t)
	r.wantRegistered(t, "registered after Close", "100003 4 rdma 127.0.0.1.8.1 superuser\n100003 3 rdma 127.0.0.1.8.1 superuser")
}

// alter does what somebody else does.
func alter(t *testing.T, op func(*client, context.Context, *mapping) (bool, error), m *mapping) {
	t.Helper()
	if !tryAlter(t, op, m) {
		t.Fatal("rpcbind says no")
	}
}

// tryAlter says whether rpcbind did it.
func tryAlter(t *testing.T, op func(*client, context.Context, *mapping) (bool, error), m *mapping) bool {
	t.Helper()
	c, err := connect(t.Context(), new(net.Dialer).DialContext, DefaultEndpoints())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ok, err := op(c, t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// takeOver puts m where the Registrar has registered. That may look in between,
// and be there again.
func takeOver(t *testing.T, m *mapping) {
	t.Helper()
	for {
		tryAlter(t, (*client).unset, m) // which does not look at the address
		if tryAlter(t, (*client).set, m) {
			return
		}
	}
}

// testAnotherUser registers as an ordinary user, who must not remove what root
// has put there.
func testAnotherUser(t *testing.T, r *real) {
	r.host.Start(t)
	r.startBy(t, Config{Registrations: []Registration{nfs("127.0.0.1:20049")}}, dialAs(1000))
	r.await(t, 1, "registered with rpcbind")
	r.wantRegistered(t, "registered", "100003 3 rdma 127.0.0.1.78.81 1000")
	mine := r.entries[0].mapping
	takeOver(t, &mine)
	err := r.Close(t.Context())
	if kept, ok := errors.AsType[*KeptError](err); !ok || kept.Owner != "superuser" {
		t.Errorf("Close: %v", err)
	}
	r.wantRegistered(t, "registered after Close", "100003 3 rdma 127.0.0.1.78.81 superuser")
}

// dialAs connects as another user: a Unix socket's peer is who connects.
func dialAs(uid uintptr) dialFunc {
	const same = ^uintptr(0)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		runtime.LockOSThread() // whose user it is that changes
		defer runtime.UnlockOSThread()
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, uid, same); e != 0 {
			return nil, e
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, same, 0, same); e != 0 {
			panic(e)
		}
		return nc, err
	}
}

// testTCP registers where there is no socket to be had. rpcbind does not know
// then who it was.
func testTCP(t *testing.T, r *real) {
	r.host.Start(t)
	r.start(t, Config{Registrations: everything, Endpoints: []Endpoint{{"unix", "/run/absent.sock"}, {"tcp", "127.0.0.1:111"}}})
	r.await(t, 4, "registered with rpcbind")
	r.wantRegistered(t, "registered", strings.ReplaceAll(everythingByRoot, "superuser", "unknown"))
	r.close(t)
	r.wantRegistered(t, "registered after Close", "")
}
