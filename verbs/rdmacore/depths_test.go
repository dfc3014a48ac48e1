//go:build rdmacore && cgo

package rdmacore

import "testing"

// TestDepths: a driver that has IRD and ORD of a reply in the other order does not make a peer
// look as one without RDMA Reads.
func TestDepths(t *testing.T) {
	for _, c := range []struct {
		iwarp                bool
		initiator, responder int // as in the event
		ird, ord             int
	}{
		{false, 3, 8, 8, 3},
		{false, 3, 0, 0, 3},
		{true, 8, 3, 8, 3},
		{true, 8, 0, 8, 0},
		{true, 0, 8, 8, 8}, // cxgb4: IRD 8, ORD 0
		{true, 0, 0, 0, 0},
	} {
		e := event{initiator: c.initiator, responder: c.responder}
		if ird, ord := e.depths(c.iwarp); ird != c.ird || ord != c.ord {
			t.Errorf("%+v: IRD %d, ORD %d", c, ird, ord)
		}
	}
}
