package desired_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// What connections of a listener and peer share is what each would have been
// given alone, at every revision, and settings of one's own stay one's own.
func TestSharedSettings(t *testing.T) {
	store, plane := start(t)
	changes := []settings.Change{
		change(t, "global", live.InlineSendMax, 1024),
		change(t, "listener/nfs", live.DDPMinChunk, 4096),
		change(t, "peer/10.1.0.0/16", live.CreditsMax, 7),
		change(t, "peer/10.1.2.0/24", live.InlineSendMax, 2048),
		change(t, "connection/1", live.CreditsMax, 9),
		change(t, "connection/1", live.InlineSendMax, 8192),
	}
	plane.Connect(planetest.Peer{ID: "4", Listener: "nfs", Address: "10.1.2.3:2000"})
	plane.Connect(planetest.Peer{ID: "5", Listener: "nfs", Address: "10.1.3.4:2000"})
	plane.Connect(planetest.Peer{ID: "6", Listener: "nfs", Address: "[::ffff:10.1.2.3]:2000"})
	for n := range len(changes) + 1 {
		if n > 0 {
			set(t, store, changes[n-1])
		}
		for _, c := range plane.Connections() {
			v := have(store.Get(settings.Scope{Kind: settings.Connection, Name: c.ID}))(t)
			for range 2 {
				if got, want := *store.Resolve(c.ConnKey), *v.Values.Settings(); got != want {
					t.Errorf("revision %d, connection %s: %+v, alone %+v", n, c.ID, got, want)
				}
			}
		}
	}
}

// Peers may have any number of addresses.
func TestManyPeersShareNothing(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "peer/10.0.0.0/17", live.CreditsMax, 7))
	for i := range 5000 {
		key := dataplane.ConnKey{Listener: "nfs", Peer: netip.AddrFrom4([4]byte{10, 0, byte(i >> 4), byte(i)}), ID: fmt.Sprint(i)}
		want := uint32(7)
		if key.Peer.As4()[2] >= 128 {
			want = 64
		}
		if got := store.Resolve(key).CreditsMax; got != want {
			t.Fatalf("%v: %d, want %d", key.Peer, got, want)
		}
	}
}
