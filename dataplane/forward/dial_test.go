package forward

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestUpstreamGone: clients are rejected while nobody is there, many of them
// with few attempts to connect, and served when it is back.
func TestUpstreamGone(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		u.l.Close()
		r := newRig(t, p, u.address)
		const many = 50
		rejected := func() {
			if c, err := rpcrdma.Dial(t.Context(), r.p, r.address, rpcrdma.DialConfig{}); err == nil {
				c.Close()
				t.Error("accepted")
			}
		}
		rejected() // who finds out
		var all sync.WaitGroup
		for range many - 1 {
			all.Go(rejected)
		}
		all.Wait()
		s := r.Stats()
		if s.Dials+s.HeldOff != many || s.Dials != s.DialFailures || s.HeldOff == 0 || s.Connections != 0 {
			t.Errorf("%+v", s)
		}
		if l := r.d.Stats()[0]; l.Refusals.Sum() != many || l.Connections != 0 {
			t.Errorf("%d refused", l.Refusals.Sum())
		}
		if !r.logged("connection refused", "upstream "+u.address, "reason=") || !r.logged("upstream unreachable", "check that the server is up") {
			t.Error("not logged")
		}
		l, err := net.Listen("tcp", u.address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var c *rpcrdma.Client
		for c == nil {
			if c, err = rpcrdma.Dial(t.Context(), r.p, r.address, rpcrdma.DialConfig{}); err != nil && t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if !r.logged("upstream is reachable again") {
			t.Error("its return is not logged")
		}
	})
}

// TestDialReasons: what an operator reads.
func TestDialReasons(t *testing.T) {
	// Nobody accepts, and the queue of a listener without one is soon full.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	full := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*syscall.SockaddrInet4).Port)).String()
	for {
		// Of a listener: the length of its queue, and how long it may become.
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		if info.Unacked > info.Sacked {
			break
		}
		nc, err := net.Dial("tcp", full)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	gone := newUpstream(t)
	gone.l.Close()
	for _, c := range []struct {
		address string
		within  time.Duration
		want    string
	}{
		{full, time.Second / 2, "upstream " + full + ": no connection within 500ms"},
		{gone.address, 0, "upstream " + gone.address + ": connection refused"},
	} {
		f := New(Config{Forward: spec.Forward{Address: c.address, DialTimeout: c.within}})
		_, err := f.OpenConn(t.Context(), netip.AddrPort{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		f.gate.until = time.Now().Add(time.Hour)
		if _, err := f.OpenConn(t.Context(), netip.AddrPort{}); err == nil || !strings.Contains(err.Error(), "not tried again yet after: ") {
			t.Errorf("again: %v", err)
		}
	}
	if err := reason(errNoRight, 0); !errors.Is(err, errNoRight) {
		t.Errorf("without the right to reserved ports: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := New(Config{Forward: spec.Forward{Address: gone.address}})
	if _, err := f.OpenConn(ctx, netip.AddrPort{}); !errors.Is(err, context.Canceled) || f.gate.err != nil {
		t.Errorf("given up: %v, %v", err, f.gate.err)
	}
}

// TestReservedPort: with the right to it, or an error that says what is
// missing.
func TestReservedPort(t *testing.T) {
	u := newUpstream(t)
	f := New(Config{Forward: spec.Forward{Address: u.address, ReservedPort: true}})
	for range 3 {
		h, err := f.OpenConn(t.Context(), netip.AddrPort{})
		if errors.Is(err, syscall.EACCES) {
			if !strings.Contains(err.Error(), "CAP_NET_BIND_SERVICE") {
				t.Error(err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if from := u.accept().RemoteAddr().(*net.TCPAddr); from.Port < rpctcp.MinReserved || from.Port > rpctcp.MaxReserved {
			t.Errorf("from port %d", from.Port)
		}
	}
}

// TestReservedPortsComeBack: more clients than there are reserved ports come and go, one
// after the other. Ports whose connections have just ended can be used again.
func TestReservedPortsComeBack(t *testing.T) {
	u := newUpstream(t)
	go func() {
		for {
			nc, err := u.l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = nc.Read(make([]byte, 1)) // until the other side has closed
				nc.Close()
			}()
		}
	}()
	f := New(Config{Forward: spec.Forward{Address: u.address, ReservedPort: true}})
	for i := range rpctcp.MaxReserved - rpctcp.MinReserved + 42 {
		h, err := f.OpenConn(t.Context(), netip.AddrPort{})
		if errors.Is(err, syscall.EACCES) {
			return // as in TestReservedPort
		}
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		h.Close()
	}
}

// TestNoReservedPort: after a client got no reserved port, the next client connects as soon as one is free. The
// upstream is not to blame.
func TestNoReservedPort(t *testing.T) {
	u := newUpstream(t)
	var log logtest.Log
	f := New(Config{Forward: spec.Forward{Address: u.address, ReservedPort: true}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var last perconn.Handler
	var there *peer
	for {
		h, err := f.OpenConn(t.Context(), netip.AddrPort{})
		if errors.Is(err, syscall.EACCES) {
			return // as in TestReservedPort
		}
		if err != nil {
			break
		}
		if last != nil {
			defer last.Close()
		}
		last, there = h, u.accept()
	}
	if _, err := f.OpenConn(t.Context(), netip.AddrPort{}); last == nil || err == nil || !strings.HasSuffix(err.Error(), "are in use") {
		t.Fatalf("without a port: %v", err)
	}
	there.Close() // the port is free at once
	<-last.(*Session).done
	last.Close()
	h, err := f.OpenConn(t.Context(), netip.AddrPort{})
	if err != nil {
		t.Fatalf("with a port: %v", err)
	}
	h.Close()
	if lines := log.Lines("reachable"); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// TestProbeWithoutReservedPort: an upstream whose clients use all reserved ports answers a probe.
func TestProbeWithoutReservedPort(t *testing.T) {
	u := newUpstream(t)
	f := New(Config{Forward: spec.Forward{Address: u.address, ReservedPort: true}})
	for {
		h, err := f.OpenConn(t.Context(), netip.AddrPort{})
		if errors.Is(err, syscall.EACCES) {
			return // as in TestReservedPort
		}
		if err != nil {
			break
		}
		defer h.Close()
		u.accept()
	}
	go func() {
		p := u.accept()
		p.send(success(p.call().XID), 0)
	}()
	if connected, err := f.Probe(t.Context()); !connected || err != nil {
		t.Errorf("connected: %v, %v", connected, err)
	}
}

// TestWhoseFault: only what rdmad itself lacks is not the upstream's fault.
func TestWhoseFault(t *testing.T) {
	for _, c := range []struct {
		err  error
		ours bool
	}{
		{nil, false}, {syscall.ECONNREFUSED, false}, {syscall.EHOSTUNREACH, false}, {syscall.EACCES, false}, {context.DeadlineExceeded, false},
		{syscall.EMFILE, true}, {syscall.EADDRNOTAVAIL, true}, {errNoRight, true}, {&noPortError{errors.New("all in use")}, true},
	} {
		if got := isOurs(c.err); got != c.ours {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestLookupWithoutDescriptor: a name that can't be looked up because rdmad has too many files open is not the
// upstream's fault.
func TestLookupWithoutDescriptor(t *testing.T) {
	for errno, ours := range map[syscall.Errno]bool{syscall.EMFILE: true, syscall.ENOBUFS: true, syscall.ECONNREFUSED: false} {
		d := net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", errno)}
		}}}
		_, err := d.DialContext(t.Context(), "tcp", "server.test.:2049")
		if got := isOurs(reason(err, 0)); got != ours {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestFilterIsNoLackOfRights: a filter before the upstream refuses connections from reserved ports, too, as any
// others. rdmad has the right to such ports then.
func TestFilterIsNoLackOfRights(t *testing.T) {
	for call, ours := range map[string]bool{"bind": true, "connect": false} {
		err := withoutPort(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, syscall.EACCES)})
		if isOurs(err) != ours || errors.Is(err, errNoRight) != ours || !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestCallsWithoutConnection are answered, though with an error.
func TestCallsWithoutConnection(t *testing.T) {
	var r oncrpc.Reply
	if err := oncrpc.Serve(t.Context(), New(Config{}), &oncrpc.Call{}, &r); !errors.Is(err, errNoConn) {
		t.Error(err)
	}
}

// TestEndsSoon: an upstream accepts a connection and closes it. The client's connection lasts a
// second nevertheless, or until the client ends it.
func TestEndsSoon(t *testing.T) {
	for name, stays := range map[string]bool{"the client stays": true, "the client goes": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, ended := newScriptConn(), make(chan string, 1)
				s := newSession(New(Config{}), netip.AddrPort{}, nc)
				s.Up(fakeConn{ended: ended})
				close(nc.next)
				time.Sleep(leastLife - 1)
				synctest.Wait()
				if len(ended) > 0 {
					t.Errorf("ended at once: %s", <-ended)
				}
				if !stays {
					s.Close()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if (len(ended) > 0) != stays {
					t.Errorf("%d ends", len(ended))
				}
				if stays {
					s.Close()
				}
			})
		})
	}
}

// TestEndsBeforeUp: an upstream that leaves while its client is still coming up
// ends the connection as soon as there is one.
func TestEndsBeforeUp(t *testing.T) {
	ours, theirs := net.Pipe()
	s := newSession(newHasty(Config{Forward: spec.Forward{Address: "u:1"}}), netip.AddrPort{}, ours)
	theirs.Close()
	<-s.done
	ended := make(chan string, 1)
	s.Up(fakeConn{ended: ended})
	if why := <-ended; why != "upstream u:1: closed its connection" {
		t.Errorf("ended for %q", why)
	}
	s.Close()
}
