package tcpaddr

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestListen(t *testing.T) {
	for _, c := range []struct {
		address string
		v4, v6  bool
	}{
		{"0.0.0.0:0", true, false},
		{"[::]:0", true, true},
		{":0", true, true},
		{"127.0.0.1:0", true, false},
		{"[::1]:0", false, true},
	} {
		l, err := Listen(t.Context(), c.address)
		verbstest.Must(t, err)
		port := l.Addr().(*net.TCPAddr).AddrPort().Port()
		for _, to := range []struct {
			host string
			want bool
		}{{"127.0.0.1", c.v4}, {"::1", c.v6}} {
			conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(to.host), port).String())
			if (err == nil) != to.want {
				t.Errorf("%s: connected to %s: %v, want %v (%v)", c.address, to.host, err == nil, to.want, err)
			}
			if err == nil {
				conn.Close()
			}
		}
		l.Close()
	}
}

func TestListenFails(t *testing.T) {
	if l, err := Listen(t.Context(), "0.0.0.0:70000"); err == nil {
		l.Close()
		t.Error("listens on port 70000")
	}
}

// TestYield: a socket that yields gives its address, and addresses that overlap with it, to a
// successor. Another program's socket does not.
func TestYield(t *testing.T) {
	for _, c := range []struct{ old, next string }{
		{"127.0.0.1", "127.0.0.1"},
		{"0.0.0.0", "127.0.0.1"},
		{"127.0.0.1", "0.0.0.0"},
		{"0.0.0.0", "[::]"},
		{"[::]", "[::]"},
	} {
		old, err := Listen(t.Context(), c.old+":0")
		verbstest.Must(t, err)
		_, port, _ := net.SplitHostPort(old.Addr().String())
		next := c.next + ":" + port
		if l, err := Listen(t.Context(), next); err == nil {
			l.Close()
			t.Errorf("%s was bound beside %s", next, c.old)
		}
		other, err := Listen(t.Context(), "127.0.0.1:0")
		verbstest.Must(t, err)
		if l, err := Listen(Yield(t.Context(), []net.Listener{other}), next); err == nil {
			l.Close()
			t.Errorf("%s was bound, because another socket yields", next)
		}
		other.Close()
		yield := Yield(t.Context(), []net.Listener{old})
		l, err := Listen(yield, next)
		if err != nil {
			t.Fatalf("%s after %s: %v", next, c.old, err)
		}
		if l, err := Listen(yield, next); err == nil {
			l.Close()
			t.Errorf("%s was bound twice", next)
		}
		old.Close()
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("%s after %s: %v", next, c.old, err)
		}
		served, err := l.Accept()
		verbstest.Must(t, err)
		served.Close()
		conn.Close()
		l.Close()
	}
}

// TestYieldKeepsTheQueue: connections that the old socket has not accepted are the new one's.
func TestYieldKeepsTheQueue(t *testing.T) {
	old, err := Listen(t.Context(), "127.0.0.1:0")
	verbstest.Must(t, err)
	conn, err := net.Dial("tcp", old.Addr().String())
	verbstest.Must(t, err)
	defer conn.Close()
	l, err := Listen(Yield(t.Context(), []net.Listener{old}), old.Addr().String())
	verbstest.Must(t, err)
	defer l.Close()
	old.Close()
	served, err := l.Accept()
	verbstest.Must(t, err)
	defer served.Close()
	if served.RemoteAddr().String() != conn.LocalAddr().String() {
		t.Errorf("accepted %v, want %v", served.RemoteAddr(), conn.LocalAddr())
	}
}

// TestYieldDoesNotBlock: the old socket stays non-blocking while it gives its address. Otherwise an
// Accept could stay in the kernel.
func TestYieldDoesNotBlock(t *testing.T) {
	old, err := Listen(t.Context(), "127.0.0.1:0")
	verbstest.Must(t, err)
	defer old.Close()
	raw, err := old.(*net.TCPListener).SyscallConn()
	verbstest.Must(t, err)
	stop, blocked := make(chan struct{}), make(chan bool)
	go func() {
		was := false
		_ = raw.Control(func(fd uintptr) {
			for {
				select {
				case <-stop:
					return
				default:
				}
				flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
				was = was || err == nil && flags&unix.O_NONBLOCK == 0
			}
		})
		blocked <- was
	}()
	for range 1000 {
		l, err := Listen(Yield(t.Context(), []net.Listener{old}), old.Addr().String())
		if err != nil {
			t.Error(err)
			break
		}
		l.Close()
	}
	close(stop)
	if <-blocked {
		t.Error("the old socket was blocking")
	}
}
