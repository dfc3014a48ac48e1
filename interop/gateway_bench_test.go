package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// workloads are the loads that fio runs on a mount. Each is counted in
// operations.
var workloads = []struct{ name, args string }{
	{"read 1M", "--rw=read --bs=1M --size=32M --iodepth=4"},
	{"write 1M", "--rw=write --bs=1M --size=32M --iodepth=4 --end_fsync=1"},
	{"random read 4k depth 1", "--rw=randread --bs=4k --size=32M --iodepth=1 --runtime=5 --time_based"},
	{"random read 4k depth 16", "--rw=randread --bs=4k --size=32M --iodepth=16 --runtime=5 --time_based"},
	{"create", "--ioengine=filecreate --nrfiles=300 --openfiles=1 --filesize=4k --create_on_open=1"},
	{"delete", "--ioengine=filedelete --nrfiles=300 --openfiles=1 --filesize=4k"},
}

// BenchmarkGateway compares a client's work over an rdmad before ganesha with
// the same work directly on ganesha over TCP, in turns. A ratio above 1 means
// that rdmad is faster. Both ways lead out of the guest and back in.
func BenchmarkGateway(b *testing.B) {
	gw := startGateway(b, image.Stock)
	gw.setUniqueID(b, "straight")
	straight := newMountAt(b, gw.g, gw.e.at("4.2"), overTCP, "/mnt/straight")
	gw.setUniqueID(b, "through")
	through := newMountAt(b, gw.g, gw.e.at("4.2"), overRDMA, "/mnt/through")
	through.stats(b) // fails unless it is over RDMA
	names, mounts := []string{"straight", "rdmad"}, []*mount{straight, through}
	for _, m := range mounts {
		m.client(b, "mkdir "+string(m.via))
	}
	var works []string
	for _, w := range workloads {
		works = append(works, w.name)
	}
	compareSides(b, names, works, func(b *testing.B, side, work int) float64 {
		guest, host, start := readTicks(b, gw.g), cpuTime(b, gw.r.process.Pid()), time.Now()
		rate := mounts[side].fio(b, workloads[work].args)
		took, used := time.Since(start), cpuTime(b, gw.r.process.Pid())-host
		// Of the last round.
		b.ReportMetric(100*readTicks(b, gw.g).busySince(guest), names[side]+"-guest-%")
		if side == 1 {
			b.ReportMetric(100*used.Seconds()/took.Seconds(), "rdmad-cpu-%")
		}
		return rate
	})
}

// ticks is what a machine's processors had done, in clock ticks (proc(5), /proc/stat).
type ticks struct{ idle, all float64 }

func readTicks(b *testing.B, g *guest.Guest) (t ticks) {
	b.Helper()
	const idle, iowait = 4, 5 // fields of the line; user is 1
	for i, f := range strings.Fields(g.MustRun(b, serverTime, "head -1 /proc/stat")) {
		n, _ := strconv.ParseFloat(f, 64) // the first is "cpu"
		t.all += n
		if i == idle || i == iowait {
			t.idle += n
		}
	}
	return t
}

// busySince is the share of the time since then that was not idle.
func (t ticks) busySince(then ticks) float64 {
	return 1 - (t.idle-then.idle)/(t.all-then.all)
}

// fio runs a workload in the mount's directory and returns its operations per
// second.
func (m *mount) fio(b *testing.B, args string) float64 {
	b.Helper()
	m.refetch(b)
	return fioRate(b, m.client(b, fmt.Sprintf("cd %s; fio --name=bench --ioengine=libaio --direct=1 --randseed=7 --output-format=json %s", m.via, args)))
}

// fioRate returns the operations per second in the output of fio's one job.
func fioRate(b *testing.B, out string) float64 {
	b.Helper()
	var report struct {
		Jobs []struct {
			Error int
			Read  struct{ IOPS float64 }
			Write struct{ IOPS float64 }
		}
	}
	if _, text, found := strings.Cut(out, "{"); !found || json.Unmarshal([]byte("{"+text), &report) != nil || len(report.Jobs) != 1 {
		b.Fatalf("fio printed %s", out)
	}
	job := report.Jobs[0]
	if job.Error != 0 || job.Read.IOPS+job.Write.IOPS == 0 {
		b.Fatalf("fio: %+v", report)
	}
	return job.Read.IOPS + job.Write.IOPS
}

// clockTicks is the unit of times in /proc, per second (USER_HZ).
const clockTicks = 100

// cpuTime returns the processor time that a process has used.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system = 14 - 3, 15 - 3 // proc(5): counted from 1, the first two are cut off
	var ticks int64
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / clockTicks
}
