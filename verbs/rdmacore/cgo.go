//go:build rdmacore && cgo

package rdmacore

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#cgo CFLAGS: -O2 -Wall
#cgo noescape rdmad_post_send
#cgo nocallback rdmad_post_send
#cgo noescape rdmad_post_recv
#cgo nocallback rdmad_post_recv
#cgo noescape rdmad_poll
#cgo nocallback rdmad_poll
#cgo noescape rdmad_event
#cgo nocallback rdmad_event
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// ProviderName is the name under which the provider is configured.
const ProviderName = "rdmacore"

// Descriptors is the number of file descriptors of a connection: the completion channel of its
// queue, and a duplicate of that for the runtime's poller. Connections share the channel of the
// connection manager.
const Descriptors = 2

// failed returns an error for the shim's return code, or nil for 0.
func failed(what string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	return fmt.Errorf("rdmacore: %s: %w", what, syscall.Errno(rc))
}

// cAddress returns a C pointer in the form that the shim's structures hold.
func cAddress[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// handles are the numbers that C keeps instead of Go pointers. They stand for identifiers,
// listeners, queue pairs and completion queues. No number is used twice.
var handles = table{entries: make(map[uint64]any)}

type table struct {
	mu      sync.Mutex
	last    uint64
	entries map[uint64]any
}

func (t *table) add(v any) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.entries[t.last] = v
	return t.last
}

// get returns nil for a handle that was removed.
func (t *table) get(h uint64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries[h]
}

func (t *table) remove(h uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.entries, h)
}

// everything returns the objects of one kind, of all providers, for which wanted returns
// true.
func everything[T any](wanted func(T) bool) (all []T) {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	for _, v := range handles.entries {
		if o, ok := v.(T); ok && wanted(o) {
			all = append(all, o)
		}
	}
	return all
}
