//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
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
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	host := silentHost(t)
	id, err := p.Resolve(ctx, host)
	must(t, err)
	side, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- id.Connect(ctx, rdmacm.ConnParam{}) }()
	for !connectsTo(t, host) {
		if ctx.Err() != nil {
			t.Fatal(<-done)
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

// connectsTo reports whether the kernel waits for a host's answer to a TCP connection.
func connectsTo(t *testing.T, host string) bool {
	t.Helper()
	to := netip.MustParseAddrPort(host)
	b := to.Addr().As4()
	const synSent = "02"
	want := fmt.Sprintf(" %08X:%04X %s ", binary.NativeEndian.Uint32(b[:]), to.Port(), synSent)
	sockets, err := os.ReadFile("/proc/net/tcp")
	must(t, err)
	return strings.Contains(string(sockets), want)
}

// TestLateCall: when rdma_connect is called late, after its caller has given up, another queue pair
// may have the number that the call names. That one can connect all the same.
func TestLateCall(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	ln, err := p.Listen(ctx, *addressFlag+":0")
	must(t, err)
	side := func() *verbstest.Side {
		id, err := p.Resolve(ctx, ln.Addr().String())
		must(t, err)
		s, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
		must(t, err)
		return s
	}
	gate, held, over := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	release := holdCalls(gate, held, over)
	first, done, closed := side(), make(chan error, 1), make(chan struct{})
	given, giveUp := context.WithCancel(ctx)
	go func() { done <- first.ID.Connect(given, rdmacm.ConnParam{}) }()
	<-held
	release()
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("connected: %v", err)
	}
	go func() {
		defer close(closed)
		first.Close()
	}()
	select {
	case <-closed: // the number is free
	case <-time.After(time.Second):
	}
	second := side()
	close(gate)
	<-over
	<-closed
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			id, err := ln.GetRequest(ctx)
			if err != nil {
				return
			}
			s, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
			if err == nil {
				_ = id.Accept(ctx, rdmacm.ConnParam{})
				defer s.Close()
			}
		}
	}()
	if err := second.ID.Connect(ctx, rdmacm.ConnParam{}); err != nil {
		t.Errorf("the second: %v", err)
	}
	second.Close()
	ln.Close()
	<-accepted
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
