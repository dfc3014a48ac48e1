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
	g := bootJudged(t, guest.Options{})
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
		if up := oneConnection(t, r); up.RPCVersion != 1 {
			t.Errorf("connection %+v, want one of version 1", up)
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
	t.Run("every extension", func(t *testing.T) { testFallsBack(t, g, r) })
	t.Run("round trips", func(t *testing.T) { testRoundTrips(t, g, r) })
}

// testFallsBack mounts from an rdmad with every extension of version 2 on and
// receives in segments. A client of version 1 must notice nothing.
func testFallsBack(t *testing.T, g *guest.Guest, r *rdmad) {
	r.ctl(t, new(struct{}), "settings", "set", "extensions.v2=on", "extensions.characteristics=on", "extensions.xmit=on",
		"extensions.continuation=on", "extensions.send_ddp=on", "inline.receive_size=33792")
	defer r.ctl(t, new(struct{}), "settings", "set", "extensions.characteristics=unset", "extensions.xmit=unset",
		"extensions.continuation=unset", "extensions.send_ddp=unset", "inline.receive_size=unset")
	m := newMountAt(t, g, r, overRDMA, "/mnt/every")
	w := m.work(t, "every")
	w.client(t, "for size in 1 1000 3000 4000 4096 32768 1048576; do dd if=/dev/urandom of=$size bs=$size count=4 2>/dev/null; done; mkdir $(seq 1 200 | sed 's/^/a-directory-with-a-long-name-/'); sync")
	want := w.serverSide(t, "sha256sum $(find . -type f | sort)")
	m.refetch(t)
	same(t, "what the client reads", w.client(t, "sha256sum $(find . -type f | sort)"), want)
	if up := oneConnection(t, r); up.RPCVersion != 1 || up.Errors != 0 {
		t.Errorf("connection %+v, want one of version 1 without errors", up)
	}
	if s := m.stats(t); s.badReplies != 0 || s.badXIDs != 0 || s.readChunks == 0 || s.writeChunks == 0 {
		t.Errorf("the client counts %+v", s)
	}
	m.detach(t)
}

// testRefusedMount mounts from an rdmad that refuses version 1. mount.nfs must
// fail at the first attempt.
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
