//go:build rdmacore && cgo

package rdmacore

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestInlineOfIntel: on Intel's adapters a request of several entries does not carry its data
// itself.
func TestInlineOfIntel(t *testing.T) {
	for _, c := range []struct {
		intel   bool
		entries int
		want    bool
	}{{false, 1, true}, {false, 2, true}, {true, 1, true}, {true, 2, false}} {
		q := &queuePair{dev: new(device), inline: 64}
		if c.intel {
			q.dev.info.vendor = vendorIntel
		}
		q.sq.init(1, 2)
		sges := q.sq.sges[:c.entries]
		for i := range sges {
			sges[i].length = 8
		}
		for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendInvalidate, verbs.OpRDMAWrite} {
			if got := q.fitsInline(op, sges); got != c.want {
				t.Errorf("Intel %v, operation %d with %d entries: inline %v", c.intel, op, c.entries, got)
			}
		}
	}
}

// TestInlineWithoutMemory: a device that refuses inline data is asked for less from then on, and one
// that has too little memory once is not.
func TestInlineWithoutMemory(t *testing.T) {
	const takes = 80
	for _, c := range []struct {
		refuses syscall.Errno
		want    uint32
	}{{syscall.EINVAL, 64}, {syscall.ENOMEM, mostInline}} {
		var most atomic.Uint32
		most.Store(mostInline)
		err := tryInline(&most, syscall.ENOMEM, func(ask uint32) syscall.Errno {
			if ask > takes {
				return c.refuses
			}
			return 0
		})
		if err != 0 || most.Load() != c.want {
			t.Errorf("%v at first: %v, asked for %d next", c.refuses, err, most.Load())
		}
	}
}
