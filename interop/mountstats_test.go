package interop

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
)

// xprtStats is a mount's "xprt: rdma" line of /proc/self/mountstats, as
// xprt_rdma_print_stats (net/sunrpc/xprtrdma/transport.c) writes it. Counters of
// one transport; they go on over reconnects.
type xprtStats struct {
	connects     uint64
	sends        uint64
	badXIDs      uint64
	readChunks   uint64
	writeChunks  uint64
	replyChunks  uint64
	failedSends  uint64 // failed_marshal_count
	badReplies   uint64
	longCalls    uint64 // nomsg_call_count
	localInvs    uint64 // local_inv_needed: tags that the server did not invalidate
	rdmaRequests uint64 // bytes
	rdmaReplies  uint64 // bytes
}

// Places in the line, counted from the word after "rdma".
const (
	statConnects     = 2
	statSends        = 5
	statBadXIDs      = 7
	statReadChunks   = 10
	statWriteChunks  = 11
	statReplyChunks  = 12
	statRDMARequests = 13
	statRDMAReplies  = 14
	statFailedSends  = 18
	statBadReplies   = 19
	statLongCalls    = 20
	statLocalInvs    = 24
	statCount        = 27
)

// cutMount returns the part of /proc/self/mountstats for the mount at dir.
func cutMount(mountstats, dir string) (string, error) {
	_, rest, found := strings.Cut(mountstats, " mounted on "+dir+" with fstype nfs")
	if !found {
		return "", fmt.Errorf("nothing is mounted on %s", dir)
	}
	rest, _, _ = strings.Cut(rest, "\ndevice ")
	return rest, nil
}

// parseXprtStats parses the "xprt: rdma" line of the mount at dir.
func parseXprtStats(mountstats, dir string) (xprtStats, error) {
	rest, err := cutMount(mountstats, dir)
	if err != nil {
		return xprtStats{}, err
	}
	_, line, found := strings.Cut(rest, "xprt:\trdma ")
	if !found {
		return xprtStats{}, fmt.Errorf("%s is not mounted over RDMA", dir)
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) < statCount {
		return xprtStats{}, fmt.Errorf("%d counters in %q, want %d", len(words), line, statCount)
	}
	var n [statCount]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(words[i], 10, 64); err != nil {
			return xprtStats{}, err
		}
	}
	return xprtStats{
		connects: n[statConnects], sends: n[statSends], badXIDs: n[statBadXIDs],
		readChunks: n[statReadChunks], writeChunks: n[statWriteChunks], replyChunks: n[statReplyChunks],
		rdmaRequests: n[statRDMARequests], rdmaReplies: n[statRDMAReplies],
		failedSends: n[statFailedSends], badReplies: n[statBadReplies], longCalls: n[statLongCalls],
		localInvs: n[statLocalInvs],
	}, nil
}

// opStats is how one procedure's calls went, of a mount's per-op statistics
// (rpc_clnt_show_stats, net/sunrpc/stats.c).
type opStats struct {
	calls         uint64
	transmissions uint64
	timeouts      uint64 // major ones
	rtt           uint64 // from Send to reply, added up, in ms
}

// parseOps returns the statistics of the procedures that were called on the
// mount at dir.
func parseOps(mountstats, dir string) (map[string]opStats, error) {
	rest, err := cutMount(mountstats, dir)
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(rest, "per-op statistics\n")
	if !found {
		return nil, fmt.Errorf("%s has no statistics of procedures", dir)
	}
	ops := make(map[string]opStats)
	for line := range strings.Lines(rest) {
		name, counters, _ := strings.Cut(strings.TrimSpace(line), ":")
		words := strings.Fields(counters)
		if len(words) < 7 {
			continue
		}
		var n [7]uint64
		for i := range n {
			var err error
			if n[i], err = strconv.ParseUint(words[i], 10, 64); err != nil {
				return nil, err
			}
		}
		if n[0] > 0 {
			ops[name] = opStats{calls: n[0], transmissions: n[1], timeouts: n[2], rtt: n[6]}
		}
	}
	return ops, nil
}

// stats reads the client's counters of a mount over RDMA.
func (m *mount) stats(t testing.TB) xprtStats {
	t.Helper()
	s, err := parseXprtStats(m.g.MustRun(t, mountTime, "cat /proc/self/mountstats"), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkStats looks, after work on a mount over RDMA, for replies that the
// client could not use, and for chunks of every kind: without them the work was
// not done by RDMA. Calls that it could not send at once are no fault: it tries
// again when it has memory regions to spare (rpcrdma_marshal_req: -ENOBUFS).
func (m *mount) checkStats(t *testing.T) {
	t.Helper()
	if m.via != overRDMA || t.Failed() {
		return
	}
	s := m.stats(t)
	if s.badReplies != 0 || s.badXIDs != 0 {
		t.Errorf("the client counts %d bad replies and %d unknown XIDs: %+v", s.badReplies, s.badXIDs, s)
	}
	if s.readChunks == 0 || s.writeChunks == 0 || s.replyChunks == 0 {
		t.Errorf("the client used no chunks of some kind: %+v", s)
	}
	t.Logf("the client's counters: %+v", s)
}

func TestParseXprtStats(t *testing.T) {
	const text = "device proc mounted on /proc with fstype proc\n" +
		"device 10.0.2.2:/ mounted on /mnt/tcp with fstype nfs statvers=1.1\n\txprt:\ttcp 700 1 1 0 0 5 5 0 5 0 2 0 0\n" +
		"device 10.0.2.2:/ mounted on /mnt/rdma with fstype nfs statvers=1.1\n\topts:\trw,vers=3\n" +
		"\txprt:\trdma 0 0 3 1 2 1000 990 7 0 0 11 12 13 14 15 0 0 0 16 17 18 0 0 4 19 0 0\n\tper-op statistics\n"
	got, err := parseXprtStats(text, "/mnt/rdma")
	want := xprtStats{connects: 3, sends: 1000, badXIDs: 7, readChunks: 11, writeChunks: 12, replyChunks: 13,
		rdmaRequests: 14, rdmaReplies: 15, failedSends: 16, badReplies: 17, longCalls: 18, localInvs: 19}
	if err != nil || got != want {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	for _, dir := range []string{"/mnt/tcp", "/mnt", "/proc"} {
		if s, err := parseXprtStats(text, dir); err == nil {
			t.Errorf("%s gave %+v", dir, s)
		}
	}
}

func TestParseOps(t *testing.T) {
	const text = "device 10.0.2.2:/ mounted on /mnt/rdma with fstype nfs statvers=1.1\n\txprt:\trdma 0 0\n\tper-op statistics\n" +
		"\t        NULL: 1 1 0 44 24 0 1 1 0\n\t        READ: 20 21 1 5 6 7 8 9 0\n\t      COMMIT: 0 0 0 0 0 0 0 0 0\n\n" +
		"device proc mounted on /proc with fstype proc\n"
	got, err := parseOps(text, "/mnt/rdma")
	want := map[string]opStats{"NULL": {calls: 1, transmissions: 1, rtt: 1}, "READ": {calls: 20, transmissions: 21, timeouts: 1, rtt: 8}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	for _, dir := range []string{"/mnt", "/proc"} {
		if ops, err := parseOps(text, dir); err == nil {
			t.Errorf("%s gave %+v", dir, ops)
		}
	}
}
