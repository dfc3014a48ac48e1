package settings

import (
	"net/netip"
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestResolvingTakesNoMemory: it is done for every connection at every change.
func TestResolvingTakesNoMemory(t *testing.T) {
	s := initial(t)
	s = apply(t, s, "global", set(live.DDPMinChunk, 1024))
	s = apply(t, s, "listener/nfs", set(live.DDPMinChunk, 2048))
	s = apply(t, s, "peer/192.0.2.0/24", set(live.CreditsMax, 7))
	s = apply(t, s, "peer/192.0.2.1", set(live.CreditsMax, 9))
	target := Target{Listener: "nfs", Peer: netip.MustParseAddr("192.0.2.1"), ID: "5"}
	c := Change{Set: set(live.CreditsMin, 2)}
	var got Values
	n := testing.AllocsPerRun(100, func() {
		got = s.Resolve(target)
		if s.Overridden(&c, target) != nil {
			t.Error("overridden")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if most, chunk := got.Format(live.CreditsMax), got.Format(live.DDPMinChunk); most != "9" || chunk != "2048" {
		t.Errorf("credits.max %s, ddp.min_chunk %s", most, chunk)
	}
}
