package interop

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/reckoning"
)

var roundtripsJSON = flag.String("roundtrips.json", "", "measure all calls at all delays, a kernel client's too, and write the figures to `file`")

// exactFigures are the figures that the measurements are compared with.
const exactFigures = "reckoning/testdata/loopback.json"

// reckonTime bounds all calls of one work of one way at one delay, under emulation.
const reckonTime = 5 * time.Minute

// testRoundTrips lets rdmactl bench work on an rdmad over softiwarp, in a guest
// whose network delays every packet (sch_netem): in every way, calls take what
// they take over the network whose delay is exact, and at least as long as
// their round trips. Of the kernel's client on r only its time is measured.
func testRoundTrips(t *testing.T, g *guest.Guest, r *rdmad) {
	exact, err := reckoning.Read(exactFigures)
	if err != nil {
		t.Fatal(err)
	}
	works, delays, calls := []reckoning.Work{{Op: "echo", Size: 6 << 10}, {Op: "write", Size: 32 << 10}}, []int{10}, 3
	if *roundtripsJSON != "" {
		works, delays, calls = reckoning.Works(), reckoning.Delays, 15
	}
	for _, name := range []string{"rdmad", "rdmactl"} {
		build(t, g.ShareDir, name)
	}
	g.MustRun(t, reckonTime, "/sbin/modprobe sch_netem; cp /host/rdmad /host/rdmactl /tmp/")
	report := new(reckoning.Report)
	for i := range exact.Ways {
		w := &exact.Ways[i]
		t.Run(w.Name, func(t *testing.T) {
			l := lineOf{g, w, works, calls}
			report.Ways = append(report.Ways, l.measure(t, delays))
		})
	}
	if *roundtripsJSON == "" {
		return
	}
	t.Run("kernel client", func(t *testing.T) { report.Ways = append(report.Ways, kernelTrips(t, g, r)) })
	text, err := report.Marshal()
	if err == nil {
		err = os.WriteFile(*roundtripsJSON, text, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// lineOf is a way's part of the work in the guest.
type lineOf struct {
	g     *guest.Guest
	way   *reckoning.WayReport
	works []reckoning.Work
	calls int
}

// measure does the works at each delay.
func (l lineOf) measure(t *testing.T, delays []int) reckoning.WayReport {
	t.Helper()
	r := reckoning.WayReport{Name: l.way.Name, Set: l.way.Set, Credits: l.way.Credits, ReceiveBytes: l.way.ReceiveBytes}
	for _, work := range l.works {
		c := l.way.Cell(work)
		if c == nil {
			t.Fatalf("%s has no %v", exactFigures, work)
		}
		r.Cells = append(r.Cells, reckoning.Cell{Work: work, Counts: c.Counts})
	}
	config := "control: {listen: \"127.0.0.1:0\"}\nmetrics: {listen: \"\"}\nstate: {path: /tmp/rdmad.state}\n" +
		"listeners: [{name: test, provider: softiwarp, address: \"127.0.0.1:20059\", service: test}]\n" +
		"services: [{name: test, echo: {}}]\n" + settingsYAML(l.way.Set)
	if err := os.WriteFile(filepath.Join(l.g.ShareDir, "rdmad.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, ms := range delays {
		for i, b := range l.bench(t, ms) {
			r.Cells[i].Latency = append(r.Cells[i].Latency, l.judge(t, &r.Cells[i], &b, ms))
		}
	}
	return r
}

// benched is the output of rdmactl bench.
type benched struct {
	Ops     int
	Latency struct {
		P50 float64
	} `json:"latency_us"`
	PerOp struct {
		Sends, Receives, Registrations float64
		RDMAReads                      float64 `json:"rdma_reads"`
		RDMAWrites                     float64 `json:"rdma_writes"`
		LocalInvalidations             float64 `json:"local_invalidations"`
		RemoteInvalidations            float64 `json:"remote_invalidations"`
		RoundTrips                     float64 `json:"round_trips"`
	} `json:"per_op"`
}

// bench runs rdmad in the guest, and rdmactl for each work at a delay.
func (l lineOf) bench(t *testing.T, ms int) []benched {
	t.Helper()
	var s strings.Builder
	s.WriteString("set -e; rm -rf /tmp/rdmad.state /tmp/rdmad.log\n") // a log of before would say that it is ready
	s.WriteString("/tmp/rdmad --config /host/rdmad.yaml --log-format json >/tmp/rdmad.log 2>&1 &\n")
	s.WriteString("rdmad=$!; trap 'kill $rdmad; wait $rdmad; /sbin/tc qdisc del dev lo root 2>/dev/null' EXIT\n")
	s.WriteString("until grep -qs '\"msg\":\"ready\"' /tmp/rdmad.log; do kill -0 $rdmad || { cat /tmp/rdmad.log >&2; exit 1; }; sleep 0.1; done\n")
	fmt.Fprintf(&s, "/sbin/tc qdisc replace dev lo root netem delay %dms limit 10000\n", ms)
	for _, work := range l.works {
		fmt.Fprintf(&s, "/tmp/rdmactl bench 127.0.0.1:20059 --op %s --count %d --timeout 1m -o json", work.Op, l.calls)
		if work.Op != "null" {
			fmt.Fprintf(&s, " --size %d", work.Size)
		}
		for _, set := range l.way.Set {
			s.WriteString(" --set " + set)
		}
		s.WriteByte('\n')
	}
	got, err := l.g.RunTalking(t.Context(), reckonTime, s.String())
	if err != nil || got.Code != 0 {
		t.Fatalf("%s: code %d, error %v\n%s\n%s", s.String(), got.Code, err, got.Stdout, got.Stderr)
	}
	out := json.NewDecoder(strings.NewReader(got.Stdout))
	all := make([]benched, len(l.works))
	for i := range all {
		if err := out.Decode(&all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// judge compares the figures of bench with the exact figures.
func (l lineOf) judge(t *testing.T, c *reckoning.Cell, b *benched, ms int) reckoning.Latency {
	t.Helper()
	want, p := c.Counts, &b.PerOp
	got := reckoning.Counts{
		CallSends: uint64(p.Sends), ReplySends: uint64(p.Receives), RDMAReads: uint64(p.RDMAReads), RDMAWrites: uint64(p.RDMAWrites),
		Registrations: uint64(p.Registrations), LocalInvalidations: uint64(p.LocalInvalidations),
		RemoteInvalidations: uint64(p.RemoteInvalidations), RoundTrips: uint64(p.RoundTrips),
		// These it does not tell.
		BytesToServer: want.BytesToServer, BytesToClient: want.BytesToClient, ClientCopies: want.ClientCopies, ServerCopies: want.ServerCopies,
	}
	if got != *want || b.Ops == 0 {
		t.Errorf("%v at %d ms: bench tells %+v, want %+v", c.Work, ms, *p, *want)
	}
	took := time.Duration(b.Latency.P50 * float64(time.Microsecond))
	if least := want.Takes(time.Duration(ms) * time.Millisecond); took < least*31/32 { // percentiles are exact to 1/32
		t.Errorf("%v at %d ms takes %v: %d round trips take %v", c.Work, ms, took, want.RoundTrips, least)
	}
	return reckoning.Latency{OneWayMS: ms, MS: reckoning.Millis(took)}
}

// settingsYAML returns KEY=VALUE settings in the form of the configuration
// file.
func settingsYAML(set []string) string {
	groups := make(map[string][]string)
	for _, s := range set {
		key, value, _ := strings.Cut(s, "=")
		group, name, _ := strings.Cut(key, ".")
		groups[group] = append(groups[group], name+": "+value)
	}
	if len(groups) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("settings:\n")
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "  %s: {%s}\n", group, strings.Join(groups[group], ", "))
	}
	return b.String()
}

func TestSettingsYAML(t *testing.T) {
	got := settingsYAML([]string{"extensions.v2=required", "inline.send_max=1024", "extensions.xmit=on"})
	if want := "settings:\n  extensions: {v2: required, xmit: on}\n  inline: {send_max: 1024}\n"; got != want || settingsYAML(nil) != "" {
		t.Errorf("%q, want %q", got, want)
	}
}

// kernelTrips measures READ and WRITE of the kernel's client on an rdmad on the
// host: direct I/O, by the client's own time from Send to reply. The card delays
// what leaves the guest, by both ways' delay.
func kernelTrips(t *testing.T, g *guest.Guest, server *rdmad) reckoning.WayReport {
	t.Helper()
	m := newMount(t, g, server, overRDMA)
	r := reckoning.WayReport{Name: "Linux client"}
	const calls = 20
	for _, ms := range reckoning.Delays {
		g.MustRun(t, mountTime, fmt.Sprintf("/sbin/tc qdisc replace dev eth0 root netem delay %dms limit 10000", 2*ms))
		i := 0
		for _, work := range reckoning.Works() {
			if work.Op != "read" && work.Op != "write" {
				continue
			}
			if ms == reckoning.Delays[0] {
				r.Cells = append(r.Cells, reckoning.Cell{Work: work})
			}
			took := m.direct(t, work, calls)
			r.Cells[i].Latency = append(r.Cells[i].Latency, reckoning.Latency{OneWayMS: ms, MS: reckoning.Millis(took)})
			i++
		}
	}
	g.MustRun(t, mountTime, "/sbin/tc qdisc del dev eth0 root")
	return r
}

// direct makes a number of READs or WRITEs of one size and returns their mean
// time.
func (m *mount) direct(t *testing.T, work reckoning.Work, calls int) time.Duration {
	t.Helper()
	file, op := "if=/dev/zero of=trips oflag=direct", strings.ToUpper(work.Op)
	if work.Op == "read" {
		file = "of=/dev/null if=trips iflag=direct"
		m.client(t, fmt.Sprintf("dd if=/dev/zero of=trips bs=%d count=%d 2>/dev/null; sync", work.Size, calls))
	}
	before := m.ops(t)[op]
	m.client(t, fmt.Sprintf("dd %s bs=%d count=%d 2>/dev/null", file, work.Size, calls))
	after := m.ops(t)[op]
	if n := after.calls - before.calls; n != uint64(calls) {
		t.Errorf("%v: %d calls, want %d", work, n, calls)
		return 0
	}
	return time.Duration(after.rtt-before.rtt) * time.Millisecond / time.Duration(calls)
}
