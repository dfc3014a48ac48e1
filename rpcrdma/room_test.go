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

// TestRoomForNewcomers: a connection that the adaptive policy grants all credits leaves
// memory for the first receives of new ones.
func TestRoomForNewcomers(t *testing.T) {
	adaptive := func(s *rpcrdma.Settings) { s.CreditsPolicy, s.CreditsMax = rpcrdma.CreditsAdaptive, 4000 }
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: 8 << 20, settings: adaptive})
	c, served := b.dial(func(s *rpcrdma.Settings) { s.CreditsMax = 4000 })
	served.Aim(4000)
	before := b.l.Room(&b.settings)
	for n := range uint32(100) {
		must(t, echo(b.ctx, c, 1, n))
	}
	room := b.l.Room(&b.settings)
	if room == 0 || room > before/4 {
		t.Fatalf("room for %d new connections, %d before the first one was granted its credits", room, before)
	}
	for n := range uint32(room) {
		c, _ := b.dial(nil)
		if err := echo(b.ctx, c, 1, n); err != nil {
			t.Fatalf("new connection %d of %d: %v", n, room, err)
		}
	}
}
