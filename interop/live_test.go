package interop

import (
	"fmt"
	"strings"
	"testing"
)

// connection is rdmactl's description of a connection.
type connection struct {
	ID                  string   `json:"id"`
	Listener            string   `json:"listener"`
	Provider            string   `json:"provider"`
	RPCVersion          int      `json:"rpc_version"`
	InlineSend          int      `json:"inline_send"`
	InlineReceive       int      `json:"inline_receive"`
	CreditsGranted      int      `json:"credits_granted"`
	Calls               uint64   `json:"calls"`
	Replies             uint64   `json:"replies"`
	ReverseCalls        uint64   `json:"reverse_calls"`
	RDMAReads           uint64   `json:"rdma_reads"`
	RDMAWrites          uint64   `json:"rdma_writes"`
	SendsWithInvalidate uint64   `json:"sends_with_invalidate"`
	Errors              uint64   `json:"errors"`
	Extensions          []string `json:"extensions"`
}

// controlled is an rdmad, on the host or in the guest, that rdmactl reaches.
type controlled interface {
	// ctl runs rdmactl and decodes its JSON answer into v.
	ctl(t testing.TB, v any, args ...string)
}

// connections returns rdmad's connections.
func (r *rdmad) connections(t testing.TB) []connection {
	t.Helper()
	return connectionsOf(t, r)
}

func connectionsOf(t testing.TB, r controlled) []connection {
	t.Helper()
	var answer struct {
		Connections []connection `json:"connections"`
	}
	r.ctl(t, &answer, "connections", "list")
	return answer.Connections
}

// oneConnection waits until rdmad lists exactly one connection, and returns it.
// A client knows of a connection a moment before rdmad lists it, and of its end
// a moment before rdmad removes it from the list.
func oneConnection(t testing.TB, r controlled) connection {
	t.Helper()
	return nextConnection(t, r, "")
}

// nextConnection waits until the one connection has another ID than before.
func nextConnection(t testing.TB, r controlled, before string) connection {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	for {
		switch c := connectionsOf(t, r); {
		case len(c) == 1 && c[0].ID != before:
			return c[0]
		case ctx.Err() != nil:
			t.Fatalf("after %v the connections are %+v, want one that is not %q", clientTime, c, before)
		}
	}
}

// set changes a setting for everything and checks that it was applied to the
// one connection that is up.
func (r *rdmad) set(t *testing.T, setting string) {
	t.Helper()
	setOn(t, r, setting)
}

func setOn(t *testing.T, r controlled, setting string) {
	t.Helper()
	if e := effectOn(t, r, setting); e.Outcome != "APPLIED" {
		t.Errorf("setting %s had the effect %+v, want APPLIED", setting, e)
	}
}

// testInlineLive changes the largest Send under a client that lists and reads.
func testInlineLive(t *testing.T, w *work, r *rdmad) {
	w.serverSide(t, "seq -w 1 150 | xargs -I{} sh -c 'seq 1 {} >a-file-with-a-name-{}'")
	want := w.serverSide(t, "cat * | sha256sum")
	reader := startScript(t, w.g, "cd "+w.path()+` && while [ ! -e /tmp/stop ]; do
	echo 3 >/proc/sys/vm/drop_caches
	cat * | sha256sum || exit 1
done`)
	for _, size := range []int{1024, 4096, 2048, 4096} {
		r.set(t, fmt.Sprintf("inline.send_max=%d", size))
		waitLines(t, reader, 2)
		if c := oneConnection(t, r); c.InlineSend != size || c.Errors != 0 {
			t.Errorf("with inline.send_max=%d the connection is %+v", size, c)
		}
	}
	w.g.MustRun(t, mountTime, "touch /tmp/stop")
	read := finish(t, reader)
	w.g.MustRun(t, mountTime, "rm /tmp/stop")
	for line := range strings.Lines(read) {
		same(t, "what was read while the setting changed", line, want)
	}
}

// testInvalidation counts how many tags the client must invalidate itself for
// the same work, with and without Send With Invalidate.
func testInvalidation(t *testing.T, w *work, r controlled) {
	const files = 100
	w.serverSide(t, fmt.Sprintf("for i in $(seq 1 %d); do head -c 20000 /dev/urandom >f$i; done", files))
	needed := func(use string) uint64 {
		setOn(t, r, "remote_invalidation.use="+use)
		w.refetch(t)
		before := w.stats(t).localInvs
		w.client(t, "cat f* | sha256sum")
		return w.stats(t).localInvs - before
	}
	off, on := needed("off"), needed("on")
	t.Logf("reading %d files: %d tags invalidated by the client without, %d with remote invalidation", files, off, on)
	if off < files {
		t.Errorf("without remote invalidation the client invalidated %d tags, want one for each of %d files at least", off, files)
	}
	if on > off/4 {
		t.Errorf("with remote invalidation the client still invalidated %d of %d tags", on, off)
	}
	if c := oneConnection(t, r); c.SendsWithInvalidate < files {
		t.Errorf("rdmad counts %+v", c)
	}
}

// chunkStats count what chunks were used for on RDMA connections.
type chunkStats struct {
	Writes  float64 `json:"write_chunk_count"` // segments offered
	Replies float64 `json:"reply_chunk_count"` // segments offered
	Placed  float64 `json:"total_rdma_reply"`  // bytes written to either
}

// chunks returns the sums over all connections.
func (r *rdmad) chunks(t testing.TB) (sum chunkStats) {
	t.Helper()
	for _, c := range r.connections(t) {
		var answer struct{ Transport chunkStats }
		r.ctl(t, &answer, "connections", "show", c.ID)
		sum.Writes += answer.Transport.Writes
		sum.Replies += answer.Transport.Replies
		sum.Placed += answer.Transport.Placed
	}
	return sum
}

// since returns the difference to an earlier count.
func (c chunkStats) since(before chunkStats) chunkStats {
	return chunkStats{Writes: c.Writes - before.Writes, Replies: c.Replies - before.Replies, Placed: c.Placed - before.Placed}
}
