package rpctcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/rpcbind/rpcbindtest"
)

// inOwnNet runs work with a network of its own, in which nothing is up.
func inOwnNet(t *testing.T, work func()) {
	t.Helper()
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			work()
		}
	})
	wg.Wait()
	switch {
	case errors.Is(err, unix.EPERM) && os.Getenv("CI") != "true":
		t.Skipf("left out: %s: it needs the right to make a network namespace", t.Name())
	case err != nil:
		t.Error(err)
	}
}

// withServer runs work with a loopback interface of its own and a server on a port of 127.0.0.1.
func withServer(t *testing.T, work func(port string)) {
	t.Helper()
	inOwnNet(t, func() {
		if err := rpcbindtest.LoopbackUp(); err != nil {
			t.Error(err)
			return
		}
		if l := listen(t, "127.0.0.1:0"); l != nil {
			_, port, _ := net.SplitHostPort(l.Addr().String())
			work(port)
		}
	})
}

// listen listens until the test ends. It returns nil after an error.
func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// countedNames resolves every name to 127.0.0.n for each n of hosts, and counts the questions.
func countedNames(asked *atomic.Int32, hosts ...byte) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			asked.Add(1)
			_ = answerName(theirs, hosts)
		}()
		return ours, nil
	}}
}

// answerName answers one question of DNS on a stream (RFC 1035 §4): with the addresses for one of IPv4, else with none.
func answerName(nc net.Conn, hosts []byte) error {
	var size [2]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(nc, b); err != nil {
		return err
	}
	const header, typeA = 12, 1
	end := header + bytes.IndexByte(b[header:], 0) + 1 // of the name
	if binary.BigEndian.Uint16(b[end:]) != typeA {
		hosts = nil
	}
	b = b[:end+4]
	copy(b[2:], []byte{0x81, 0x80, 0, 1, 0, byte(len(hosts)), 0, 0, 0, 0})
	for _, host := range hosts {
		b = append(b, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, host)
	}
	_, err := nc.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	return err
}

// TestReservedPortsInUse: while all reserved ports are in use, a name is looked up once, not for each port.
func TestReservedPortsInUse(t *testing.T) {
	withServer(t, func(port string) {
		var taken []net.Listener
		for p := MinReserved; p <= MaxReserved; p++ {
			taken = append(taken, listen(t, fmt.Sprint("127.0.0.1:", p)))
		}
		var asked atomic.Int32
		d := net.Dialer{Resolver: countedNames(&asked, 1)}
		address := net.JoinHostPort("server.test.", port)
		if nc, err := DialReserved(t.Context(), d, address); err == nil || !strings.HasSuffix(err.Error(), "are in use") {
			t.Errorf("without a port: %v, %v", nc, err)
		}
		if n := asked.Load(); n > 2 { // of IPv4 and of IPv6
			t.Errorf("the name was looked up %d times", n)
		}
		taken[len(taken)/2].Close()
		nc, err := DialReserved(t.Context(), d, address)
		if err != nil {
			t.Error("with a port:", err)
			return
		}
		nc.Close()
	})
}

// TestNoSourceAddress: an address that can't be reached from any port, as of IPv6 while that is off, is no lack of
// reserved ports.
func TestNoSourceAddress(t *testing.T) {
	inOwnNet(t, func() {
		nc, err := DialReserved(t.Context(), net.Dialer{}, "[::1]:2049")
		if !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("%v, %v", nc, err)
		}
	})
}

// TestReservedPortInUseOfTwoAddresses: while a port is in use, a connection is still made to the address of a name that
// answers, not only to its first one, also if that does not even refuse.
func TestReservedPortInUseOfTwoAddresses(t *testing.T) {
	for _, silent := range []bool{false, true} {
		withServer(t, func(port string) {
			for p := MinReserved; p < MaxReserved; p++ {
				listen(t, fmt.Sprint("0.0.0.0:", p))
			}
			if silent {
				listenSilently(t, "127.0.0.2:"+port)
			}
			var asked atomic.Int32
			d := net.Dialer{Resolver: countedNames(&asked, 2, 1)}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // net.Dialer gives each address half of it
			defer cancel()
			nc, err := DialReserved(ctx, d, net.JoinHostPort("server.test.", port))
			if err != nil {
				t.Errorf("silent: %v, %v", silent, err)
				return
			}
			nc.Close()
		})
	}
}

// TestReservedPortInUseForOneAddress: the same while ports are in use by connections to the address that answers, and the
// first one refuses.
func TestReservedPortInUseForOneAddress(t *testing.T) {
	withServer(t, func(port string) {
		for range MaxReserved - MinReserved { // all ports but one
			nc, err := DialReserved(t.Context(), net.Dialer{}, net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
		}
		var asked atomic.Int32
		d := net.Dialer{Resolver: countedNames(&asked, 2, 1)}
		nc, err := DialReserved(t.Context(), d, net.JoinHostPort("server.test.", port))
		if err != nil {
			t.Error(err)
			return
		}
		nc.Close()
	})
}

// listenSilently is listen, but the kernel drops all packets for the listener.
func listenSilently(t *testing.T, address string) {
	t.Helper()
	all := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &all)
		})
		return cmp.Or(failed, err)
	}}
	lc.SetMultipathTCP(false) // it has no such filters
	l, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { l.Close() })
}
