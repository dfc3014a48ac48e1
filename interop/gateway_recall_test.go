package interop

import (
	"strconv"
	"strings"
	"testing"
)

// callbackEvents are trace points of the client: a CB_RECALL that came, and a
// call of the reverse direction over RDMA.
const callbackEvents = "nfs4/nfs4_cb_recall rpcrdma/xprtrdma_cb_call"

// countEvents traces callbacks while work is done, and counts them.
func (m *mount) countEvents(t *testing.T, work func()) (recalls, overRDMA int) {
	t.Helper()
	m.g.MustRun(t, mountTime, `cd /sys/kernel/tracing; echo >trace
for e in `+callbackEvents+`; do echo 1 >events/$e/enable; done`)
	work()
	out := m.g.MustRun(t, mountTime, `cd /sys/kernel/tracing
for e in `+callbackEvents+`; do echo 0 >events/$e/enable; grep -c ": ${e#*/}:" trace || true; done`)
	var n [2]int
	for i, text := range strings.Fields(out) {
		var err error
		if n[i], err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n[0], n[1]
}

// recall lets one client have a delegation, which the other one's open takes
// away: by a CB_RECALL in the reverse direction of the first one's connection.
func (gw *gateway) recall(t *testing.T, m *mount) {
	other := gw.other(t, m)
	file := "delegated-" + string(m.via)
	other.client(t, "echo first >"+file)
	m.getDelegation(t, file, "first\n")
	before := m.ops(t)["DELEGRETURN"].calls
	reverse := gw.reverseCalls(t)
	recalls, reverseRDMA := m.countEvents(t, func() { other.client(t, "echo second >>"+file) })
	if recalls != 1 {
		t.Errorf("the client saw %d recalls, want 1", recalls)
	}
	// The server lets the other one open the file before the client counts the
	// answer to its DELEGRETURN.
	ops := m.waitOps(t, func(ops map[string]opStats) bool { return ops["DELEGRETURN"].calls > before })
	if got := ops["DELEGRETURN"].calls - before; got != 1 {
		t.Errorf("the client returned %d delegations, want 1", got)
	}
	same(t, "the file", m.client(t, "cat "+file), "first\nsecond\n")
	if m.via != overRDMA {
		return
	}
	if reverseRDMA == 0 {
		t.Error("no call came in the reverse direction of the RDMA connection")
	}
	if got := gw.reverseCalls(t) - reverse; got == 0 {
		t.Error("rdmad counts no reverse call")
	} else {
		t.Logf("%d reverse calls, %d of them seen by the client's transport, %d recalls", got, reverseRDMA, recalls)
	}
}

// getDelegation reads a file until the client need not open it at the server any
// more. A server may give no delegation at first: not all know at once that they
// can recall it.
func (m *mount) getDelegation(t *testing.T, file, text string) {
	t.Helper()
	opens := func(ops map[string]opStats) uint64 { return ops["OPEN"].calls + ops["OPEN_NOATTR"].calls }
	before := opens(m.ops(t))
	m.waitOps(t, func(map[string]opStats) bool {
		same(t, "the file", m.client(t, "cat "+file), text)
		after := opens(m.ops(t))
		done := after == before
		before = after
		return done
	})
}

// reverseCalls are those of all connections of rdmad, if there is one.
func (gw *gateway) reverseCalls(t *testing.T) (n uint64) {
	t.Helper()
	if gw.r == nil {
		return 0
	}
	for _, c := range gw.r.connections(t) {
		n += c.ReverseCalls
	}
	return n
}
