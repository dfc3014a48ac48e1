package rpcrdma_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestRoom: as many connections as a listener has room for have their first receives,
// whatever receives the first of them were granted beyond those.
func TestRoom(t *testing.T) {
	const memory = 8 << 20
	for name, set := range map[string]func(*rpcrdma.Settings){
		"many credits":   func(*rpcrdma.Settings) {},
		"few credits":    func(s *rpcrdma.Settings) { s.CreditsMax = 4 },
		"some credits":   func(s *rpcrdma.Settings) { s.CreditsMax = 12 },
		"large receives": func(s *rpcrdma.Settings) { s.InlineReceiveSize = 60 << 10 },
		"adaptive":       func(s *rpcrdma.Settings) { s.CreditsPolicy = rpcrdma.CreditsAdaptive },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: memory, settings: set})
			s := &b.settings
			room := b.l.Room(s)
			if most := memory / int(s.InlineReceiveSize) / int(min(s.CreditsMax, 8)); room < 2 || room > most {
				t.Fatalf("room for %d", room)
			}
			for i := range room {
				c, _ := b.dial(nil)
				if err := echo(b.ctx, c, 1, uint32(i)); err != nil {
					t.Fatalf("connection %d of %d: %v", i, room, err)
				}
			}
		})
	}
}
