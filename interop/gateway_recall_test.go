package interop

import "testing"

// recall gives one client a delegation and takes it away with the other one's
// open: the server sends a CB_RECALL in the reverse direction of the first one's
// connection. What is counted is what client and rdmad count themselves. Trace
// points would show the same, but switching them on changes the running kernel's
// code, and an emulated guest of two processors once hung in that for good.
func (gw *gateway) recall(t *testing.T, m *mount) {
	other := gw.other(t, m)
	file := "delegated-" + string(m.via)
	other.client(t, "echo first >"+file)
	m.getDelegation(t, file, "first\n")
	before := m.ops(t)["DELEGRETURN"].calls
	reverse := gw.reverseCalls(t)
	other.client(t, "echo second >>"+file)
	// The server lets the other one open the file before the client counts the
	// answer to its DELEGRETURN.
	ops := m.waitOps(t, func(ops map[string]opStats) bool { return ops["DELEGRETURN"].calls > before })
	if got := ops["DELEGRETURN"].calls - before; got != 1 {
		t.Errorf("the client returned %d delegations, want 1", got)
	}
	same(t, "the file", m.client(t, "cat "+file), "first\nsecond\n")
	if gw.r == nil {
		return
	}
	if gw.reverseCalls(t) == reverse {
		t.Error("rdmad counts no call in the reverse direction of an RDMA connection")
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

// reverseCalls returns the number of reverse calls on all of rdmad's
// connections. It returns 0 without an rdmad.
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
