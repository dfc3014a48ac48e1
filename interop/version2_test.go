package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// TestVersion2 lets the kernel's client, which speaks version 1 alone, mount
// from an rdmad that speaks version 2 as well, and then from one that wants
// nothing else. The guest is then used for calls in every way that there is.
func TestVersion2(t *testing.T) {
	g := guest.Boot(t, guest.Options{})
	g.UseRDMA(t, guest.SIWPlain)
	r := startRdmadAs(t, g.ShareDir, func(r *rdmad) string {
		return r.exporting() + "settings: {extensions: {v2: on}}\n"
	})
	t.Run("on", func(t *testing.T) {
		m := newMount(t, g, r, overRDMA)
		w := m.work(t, "on")
		sum := strings.Fields(w.client(t, "dd if=/dev/urandom of=a bs=64k count=16 2>/dev/null; sync; sha256sum a"))[0]
		if got := strings.Fields(w.serverSide(t, "sha256sum a"))[0]; got != sum {
			t.Errorf("the server has %s, the client wrote %s", got, sum)
		}
		if up := r.connections(t); len(up) != 1 || up[0].RPCVersion != 1 {
			t.Errorf("connections %+v, want one of version 1", up)
		}
		e := r.effect(t, "extensions.v2=required")
		if e.Outcome != "PENDING_RECONNECT" || !strings.Contains(e.Reason, "chose version 1") {
			t.Errorf("required on a connection of version 1: %+v", e)
		}
		m.refetch(t)
		if got := strings.Fields(w.client(t, "sha256sum a"))[0]; got != sum {
			t.Errorf("after the change the client reads %s, wrote %s", got, sum)
		}
		m.detach(t)
		testRefusedMount(t, g, r)
		r.ctl(t, new(struct{}), "settings", "set", "extensions.v2=on")
		m.attach(t)
		if got := strings.Fields(w.client(t, "sha256sum a"))[0]; got != sum {
			t.Errorf("mounted again the client reads %s, wrote %s", got, sum)
		}
	})
	t.Run("round trips", func(t *testing.T) { testRoundTrips(t, g, r) })
}

// testRefusedMount mounts where version 1 is refused: mount.nfs fails at the first
// attempt.
func testRefusedMount(t *testing.T, g *guest.Guest, r *rdmad) {
	source, options := r.mountArgs(overRDMA)
	ctx, cancel := context.WithTimeout(t.Context(), mountTime)
	defer cancel()
	result, err := g.Run(ctx, fmt.Sprintf("mkdir -p /mnt/refused && mount.nfs %s /mnt/refused -o %s,retry=0", source, options))
	if err != nil {
		t.Fatalf("mounting where version 2 is required: %v", err)
	}
	t.Logf("mount.nfs: code %d, %s", result.Code, strings.TrimSpace(result.Stderr))
	if result.Code == 0 {
		t.Error("a client of version 1 mounts where version 2 is required")
	}
}
