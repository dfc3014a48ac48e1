package interop

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// smallFile is what one READ brings, in bytes. The client asks for a page and
// offers a write chunk for it, as the reply might not fit; rdmad chooses.
const smallFile = 3000

// testPlacement switches READ replies between inline and write chunks. The
// first READ after the answer to a change already uses the new way.
func testPlacement(t *testing.T, w *work, r *rdmad) {
	w.serverSide(t, fmt.Sprintf("head -c %d /dev/urandom >small", smallFile))
	sum := w.serverSide(t, "sha256sum <small")
	for _, c := range []struct {
		setting string
		placed  uint64 // bytes, by RDMA Write
	}{
		{"inline.send_max=4096", 0},
		{"inline.send_max=1024", smallFile},
		{"inline.send_max=4096", 0},
		{fmt.Sprintf("inline.send_max=%d", smallFile), smallFile},
		{"inline.send_max=4096", 0},
		{fmt.Sprintf("ddp.min_chunk=%d", smallFile), smallFile},
		{fmt.Sprintf("ddp.min_chunk=%d", smallFile+1), 0},
		{"ddp.min_chunk=0", smallFile},
		{"ddp.min_chunk=4096", 0},
	} {
		w.refetch(t)
		before, writes := w.stats(t), oneConnection(t, r).RDMAWrites
		r.set(t, c.setting)
		same(t, "the file", w.client(t, "sha256sum <small"), sum)
		after, written := w.stats(t), oneConnection(t, r).RDMAWrites
		if got := after.rdmaReplies - before.rdmaReplies; got != c.placed {
			t.Errorf("after %s the client was given %d bytes by RDMA Write, want %d", c.setting, got, c.placed)
		}
		if (written > writes) != (c.placed > 0) {
			t.Errorf("after %s rdmad counts %d RDMA Writes", c.setting, written-writes)
		}
	}
}

// testCredits changes credits.max while a client has 64 requests in flight. No
// call is lost, repeated or late, and the connection stays up.
func testCredits(t *testing.T, w *work, r *rdmad) {
	load := startScript(t, w.g, "cd "+w.path()+` && while [ ! -e /tmp/stop ]; do
	fio --name=verify --filename=data --rw=randrw --bs=4k --size=4M --iodepth=64 --ioengine=libaio --direct=1 \
		--verify=crc32c --verify_fatal=1 --allow_file_create=1 >/tmp/fio 2>&1 || { cat /tmp/fio >&2; exit 1; }
	echo round
done`)
	before := oneConnection(t, r)
	for _, most := range []int{64, 1, 32, 128, 2, 64, 8, 64} {
		r.set(t, fmt.Sprintf("credits.max=%d", most))
		r.waitCalls(t, 300)
		if c := oneConnection(t, r); c.CreditsGranted != most || c.Errors != 0 {
			t.Errorf("with credits.max=%d the connection is %+v", most, c)
		}
	}
	waitLines(t, load, 1)
	w.g.MustRun(t, mountTime, "touch /tmp/stop")
	rounds := finish(t, load)
	w.g.MustRun(t, mountTime, "rm /tmp/stop")
	if after := oneConnection(t, r); after.ID != before.ID {
		t.Errorf("the connection was %+v and is %+v", before, after)
	}
	w.checkOps(t)
	t.Logf("%d rounds of 1,024 requests each, written or read and then verified", strings.Count(rounds, "\n"))
}

// waitCalls waits until the one connection has received n more calls.
func (r *rdmad) waitCalls(t *testing.T, n uint64) {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	first := oneConnection(t, r).Calls
	for {
		switch c := r.connections(t); {
		case len(c) != 1:
			t.Fatalf("the connections are %+v", c)
		case c[0].Calls >= first+n:
			return
		case ctx.Err() != nil:
			t.Fatalf("%d calls in %v, want %d", c[0].Calls-first, clientTime, n)
		}
	}
}

// testReceiveSize changes what version 1 fixes at connect: it waits for the
// next connection, which a drain brings about under a client that goes on.
func testReceiveSize(t *testing.T, w *work, r *rdmad) {
	w.serverSide(t, "for i in $(seq 1 20); do seq 1 500 >f$i; done")
	want := w.serverSide(t, "cat f* | sha256sum")
	reader := startScript(t, w.g, "cd "+w.path()+` && while [ ! -e /tmp/stop ]; do
	echo 3 >/proc/sys/vm/drop_caches
	cat f* | sha256sum || exit 1
done`)
	told := 4096
	for _, size := range []int{8192, 2048, 4096} {
		waitLines(t, reader, 1)
		e := r.effect(t, "inline.receive_size="+strconv.Itoa(size))
		reason := fmt.Sprintf("inline.receive_size: version 1 fixes it at connect, %d bytes here", told)
		if e.Outcome != "PENDING_RECONNECT" || e.Reason != reason {
			t.Errorf("inline.receive_size=%d: %+v", size, e)
		}
		before, connects := oneConnection(t, r), w.stats(t).connects
		if before.ID != e.ConnectionID || before.InlineReceive != told {
			t.Errorf("before the drain: %+v", before)
		}
		var answer any
		r.ctl(t, &answer, "connections", "drain", e.ConnectionID)
		nextConnection(t, r, e.ConnectionID)
		waitLines(t, reader, 2)
		after := oneConnection(t, r)
		if after.ID == e.ConnectionID || after.InlineReceive != size || after.Errors != 0 {
			t.Errorf("after the drain: %+v", after)
		}
		if n := w.stats(t).connects - connects; n != 1 {
			t.Errorf("the client connected %d times", n)
		}
		w.checkCalls(t, r, size)
		told = size
	}
	w.g.MustRun(t, mountTime, "touch /tmp/stop")
	read := finish(t, reader)
	w.g.MustRun(t, mountTime, "rm /tmp/stop")
	for line := range strings.Lines(read) {
		same(t, "what was read around the drains", line, want)
	}
}

// checkCalls writes a little file: the WRITE comes inline if the client was
// told of receives that are large enough, else rdmad has to read it.
func (w *work) checkCalls(t *testing.T, r *rdmad, receives int) {
	t.Helper()
	before := oneConnection(t, r).RDMAReads
	name := fmt.Sprintf("written-%d", receives)
	sum := w.client(t, fmt.Sprintf("head -c %d /dev/urandom >/tmp/new; dd if=/tmp/new of=%s bs=%d conv=fsync 2>/dev/null; sha256sum </tmp/new", smallFile, name, smallFile))
	same(t, name, w.serverSide(t, "sha256sum <"+name), sum)
	if reads := oneConnection(t, r).RDMAReads - before; (reads > 0) != (receives < smallFile) {
		t.Errorf("with receives of %d bytes rdmad read %d times for a WRITE of %d", receives, reads, smallFile)
	}
}

// effect is what a change did to the one connection that is up.
type effect struct {
	ConnectionID string `json:"connection_id"`
	Outcome      string `json:"outcome"`
	Reason       string `json:"reason"`
}

// effect changes a setting for everything and returns the effect.
func (r *rdmad) effect(t *testing.T, setting string) effect {
	t.Helper()
	return effectOn(t, r, setting)
}

func effectOn(t *testing.T, r controlled, setting string) effect {
	t.Helper()
	oneConnection(t, r)
	var answer struct {
		Effects []effect `json:"effects"`
	}
	r.ctl(t, &answer, "settings", "set", setting)
	if len(answer.Effects) != 1 {
		t.Fatalf("setting %s had the effects %+v, want one", setting, answer.Effects)
	}
	return answer.Effects[0]
}

// checkOps looks for calls that the client made more than once, or that
// waited for longer than it is patient.
func (m *mount) checkOps(t *testing.T) {
	t.Helper()
	ops, err := parseOps(m.g.MustRun(t, mountTime, "cat /proc/self/mountstats"), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, op := range ops {
		if op.transmissions != op.calls || op.timeouts != 0 {
			t.Errorf("%s: %d calls, sent %d times, %d timeouts", name, op.calls, op.transmissions, op.timeouts)
		}
	}
	if ops["READ"].calls == 0 || ops["WRITE"].calls == 0 {
		t.Errorf("nothing was read or written: %+v", ops)
	}
}
