//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestSilentHost: a host that never answers does not keep what its connection was for, once the
// caller has given up. On siw that host would keep it for two minutes.
func TestSilentHost(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	if !p.first.is(vendorSIW) {
		return // other devices do not wait for TCP in the call
	}
	ctx, cancel := context.WithCancel(t.Context())
	id, err := p.Resolve(ctx, silentHost(t))
	must(t, err)
	side, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
	must(t, err)
	own, done := id.(*connID), make(chan error, 1)
	go func() { done <- id.Connect(ctx, rdmacm.ConnParam{}) }()
	for {
		own.mu.Lock()
		calling := own.calling != nil
		own.mu.Unlock()
		if calling {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("connected: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		side.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(verbstest.Patience / 2):
		t.Error("the silent host keeps the queue pair")
		<-closed
	}
}

// silentHost returns the address of a socket that answers no request for a connection: its queue
// is full.
func silentHost(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: netip.MustParseAddr(*addressFlag).As4()}))
	must(t, unix.Listen(fd, 0))
	at, err := unix.Getsockname(fd)
	must(t, err)
	to := at.(*unix.SockaddrInet4)
	address := netip.AddrPortFrom(netip.AddrFrom4(to.Addr), uint16(to.Port)).String()
	first, err := net.Dial("tcp", address) // there is room for one
	must(t, err)
	t.Cleanup(func() { first.Close() })
	return address
}
