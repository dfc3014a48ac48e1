package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// churnSteps are changes of what a client is told at connect, each followed by
// a new connection, and the most that rdmad may then send in one message.
var churnSteps = []struct {
	setting   string
	reconnect func(*rdmad, *testing.T)
	most      int
}{
	{"inline.send_max=4096", (*rdmad).drain, 1024}, // the client may have receives of 1024 bytes
	{"inline.receive_size=8192", (*rdmad).drain, 1024},
	{"credits.max=128", (*rdmad).drain, 1024},
	{"inline.send_max=2048", (*rdmad).restart, 2048}, // rdmad has forgotten
	{"credits.max=16", (*rdmad).drain, 2048},
	{"inline.send_max=4096", (*rdmad).drain, 2048},
	{"inline.receive_size=2048", (*rdmad).killAndStart, 4096},
	{"credits.max=64", (*rdmad).drain, 4096},
	{"inline.send_max=1024", (*rdmad).drain, 1024},
}

// mostRefused is how many connections a client may end while rdmad learns that it
// keeps its receives: one, and one more where the client connects again before
// rdmad has seen the first end.
const mostRefused = 2

// testChurn changes what a client is told at connect while it works, with drains
// and restarts. Linux 6.12 keeps receives of the connection before: a larger Send
// than they take ends the connection, from which rdmad learns after each restart.
func testChurn(t *testing.T, g *guest.Guest, r *rdmad) {
	var answer any
	r.ctl(t, &answer, "settings", "set", "inline.send_max=1024")
	w := newMountAt(t, g, r, overRDMA, "/mnt/churn").work(t, "churn")
	w.serverSide(t, fmt.Sprintf("for i in $(seq 1 20); do head -c $((%d / (1 + i%%2))) /dev/urandom >f$i; done", smallFile))
	want := w.serverSide(t, "cat f* | sha256sum")
	reader := startScript(t, g, "set -e; cd "+w.path()+`; while [ ! -e /tmp/stop ]; do
	echo 3 >/proc/sys/vm/drop_caches
	cat f* >/tmp/read; sha256sum </tmp/read
done`)
	records := startScript(t, g, "cd "+w.path()+"; "+recordWriter)
	work := func() {
		waitLines(t, reader, 4)
		waitLines(t, records, 5)
		n := strings.Count(r.process.Log(), "no buffer available")
		if learnt := strings.Count(r.process.Log(), "smaller receives than it said"); n > mostRefused || n > 0 && learnt != 1 {
			t.Fatalf("the client ended %d connections as it had no receive for a Send, of which rdmad has learnt %d times", n, learnt)
		}
	}
	work()
	for i, step := range churnSteps {
		e := r.effect(t, step.setting)
		if i == 0 && (e.Outcome != "PENDING_RECONNECT" || !strings.HasPrefix(e.Reason, "inline.send_max: held at 1024 bytes: ")) {
			t.Errorf("%s: %+v", step.setting, e)
		}
		step.reconnect(r, t)
		work()
		c := oneConnection(t, r)
		t.Logf("after %s rdmad sends up to %d bytes", step.setting, c.InlineSend)
		if c.InlineSend > step.most {
			t.Errorf("want at most %d", step.most)
		}
		if i == 0 {
			checkHeld(t, r)
		}
	}
	g.MustRun(t, mountTime, "touch /tmp/stop")
	read, acknowledged := finish(t, reader), finish(t, records)
	g.MustRun(t, mountTime, "rm /tmp/stop")
	for line := range strings.Lines(read) {
		same(t, "what was read", line, want)
	}
	checkRecords(t, w, strings.Count(acknowledged, "\n"))
}

// checkHeld looks at what operators see of the one connection, which gets smaller
// Sends than the settings want.
func checkHeld(t *testing.T, r *rdmad) {
	t.Helper()
	var shown struct {
		Held string `json:"inline_send_held"`
	}
	r.ctl(t, &shown, "connections", "show", oneConnection(t, r).ID)
	if !strings.HasPrefix(shown.Held, "held at 1024 bytes: ") {
		t.Errorf("the connection says %q", shown.Held)
	}
}

// drain ends the one connection in order and waits for the next.
func (r *rdmad) drain(t *testing.T) {
	t.Helper()
	var answer any
	before := oneConnection(t, r).ID
	r.ctl(t, &answer, "connections", "drain", before)
	nextConnection(t, r, before)
}

// restart ends rdmad in order, and starts it again on the same ports.
func (r *rdmad) restart(t *testing.T) {
	t.Helper()
	r.stop(t)
	r.start(t)
}
