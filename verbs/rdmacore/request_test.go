//go:build rdmacore && cgo

package rdmacore

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// outside makes a C structure, with room behind it, in memory outside the Go heap.
func outside[T any](t *testing.T, made **T) {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, 4<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	*made = (*T)(unsafe.Pointer(&mem[0]))
}

// TestRequestHasItsHandle: a request has its own handle before it moves to the provider's channel,
// where its events may be read at once. One that does not move leaves nothing behind.
func TestRequestHasItsHandle(t *testing.T) {
	p, id, o := &Provider{channel: new(channel)}, new(connID), new(openContext)
	outside(t, &p.channel.c)
	outside(t, &id.c)
	outside(t, &o.c)
	use(&p.devices, o, &o.c)
	id.c.channel, id.c.verbs = p.channel.c, o.c
	p.channel.c.fd = -1 // it can't move there
	if made, err := newRequest(p, id.c, new(event)); err == nil {
		t.Errorf("%+v", made)
	}
	if id.c.context == nil {
		t.Error("moved with the handle of its listener")
	}
	if handles.get(uint64(uintptr(id.c.context))) != nil {
		t.Error("the handle is in use")
	}
	_, err := p.users.Close("provider", func() error { return nil })
	must(t, err)
}
