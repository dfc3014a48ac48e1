//go:build rdmacore && cgo

package rdmacore

import (
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
