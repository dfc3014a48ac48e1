package rpcrdma_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestRoom: each connection that a listener has room for has its first receives,
// whatever receives those before it were granted.
func TestRoom(t *testing.T) {
	for name, set := range map[string]func(*rpcrdma.Settings){
		"many credits":   func(*rpcrdma.Settings) {},
		"few credits":    func(s *rpcrdma.Settings) { s.CreditsMax = 4 },
		"some credits":   func(s *rpcrdma.Settings) { s.CreditsMax = 12 },
		"large receives": func(s *rpcrdma.Settings) { s.InlineReceiveSize = 60 << 10 },
		"adaptive":       func(s *rpcrdma.Settings) { s.CreditsPolicy = rpcrdma.CreditsAdaptive },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: 8 << 20, settings: set})
			n := uint32(0)
			for ; b.l.Room(&b.settings) > 0; n++ {
				c, _ := b.dial(nil)
				if err := echo(b.ctx, c, 1, n); err != nil {
					t.Fatalf("connection %d: %v", n, err)
				}
			}
			if m := b.l.Memory(); n < 2 || m.Taken < m.Limit/4 {
				t.Errorf("room for %d, which hold %+v", n, m)
			}
		})
	}
}
