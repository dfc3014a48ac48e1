package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// sideLoad is a load that the kernel's client runs on each server, counted in
// operations.
type sideLoad struct {
	name   string
	before string // done in the server's directory, not counted
	script string // done in the client's; prints what rate understands
	rate   func(b *testing.B, out string) float64
}

const (
	sideFio   = "fio --randseed=7 --output-format=json --name=names "
	sideData  = sideFio + "--filename=data --ioengine=libaio --direct=1 --size=32M --runtime=4 --time_based "
	sideNames = "rm -f names*; seq 0 399 | sed 's/^/names.0./' | xargs truncate -s 4k"
	sideFiles = sideFio + "--nrfiles=400 --openfiles=1 --filesize=4k --create_on_open=1 "
)

var sideLoads = []sideLoad{
	{"random read 4 KiB, depth 1", "", sideData + "--rw=randread --bs=4k --iodepth=1", fioRate},
	{"random read 4 KiB, depth 16", "", sideData + "--rw=randread --bs=4k --iodepth=16", fioRate},
	{"read 1 MiB, depth 4", "", sideData + "--rw=read --bs=1M --iodepth=4", fioRate},
	{"write 1 MiB, depth 4", "", sideData + "--rw=write --bs=1M --iodepth=4 --end_fsync=1", fioRate},
	{"create", "rm -f names*", sideFiles + "--ioengine=filecreate", fioRate},
	{"stat", "rm -f names*; seq 1 1000 | sed 's/^/names./' | xargs truncate -s 4k", `
set -- $(seq 1 1000 | sed 's/^/names./')
begin=$(cut -d' ' -f1 /proc/uptime)
stat -t "$@" >/dev/null
echo $begin $(cut -d' ' -f1 /proc/uptime)`, statRate},
	{"unlink", sideNames, sideFiles + "--ioengine=filedelete", fioRate},
}

// statRate takes the two times, in seconds, between which 1,000 files were
// looked at.
func statRate(b *testing.B, out string) float64 {
	b.Helper()
	var begin, end float64
	if _, err := fmt.Sscan(out, &begin, &end); err != nil || end <= begin {
		b.Fatalf("the client printed %q", out)
	}
	return 1000 / (end - begin)
}

// sideServers are the rdmads of BenchmarkRdmacore; the kernel's server has the
// ports that they leave.
var sideServers = []guestServer{
	{name: "softiwarp", provider: "softiwarp", nfs: 21049, mountd: 21048, control: 21050},
	{name: "rdmacore", provider: "rdmacore", nfs: 22049, mountd: 22048, control: 22050},
}

// BenchmarkRdmacore compares servers of one directory on tmpfs, in one guest and
// under the same kernel's client: the kernel's own on siw, rdmad on softiwarp and rdmad
// on rdmacore and siw. Each round does a load on all, and another one first. The ratios
// are the medians over the rounds; above 1 rdmad is faster. All sync what they promise
// to: metadata before the answer, data at COMMIT, which costs a tmpfs nothing. rdmad has
// the environment of its packaged unit.
func BenchmarkRdmacore(b *testing.B) {
	// With a clock that programs read without a system call, as machines have.
	g := guest.Boot(b, guest.Options{MemoryMiB: 3072, Append: []string{"tsc=reliable"}})
	g.UseRDMA(b, guest.SIWPlain)
	serveLargest(b, g)
	buildGuestRdmad(b, g)
	mounts := []*sideMount{newSideMount(b, g, knfsd{g}, "knfsd")}
	for _, s := range sideServers {
		s.limits = rdmacoreLimits + unitEnvironment(b)
		mounts = append(mounts, newSideMount(b, g, startGuestRdmad(b, g, s), s.name))
	}
	compareMounts(b, mounts, sideLoads)
}

// compareMounts prints how fast mounts are at loads, beside the first.
func compareMounts(b *testing.B, mounts []*sideMount, loads []sideLoad) {
	b.Helper()
	var names, works []string
	for _, m := range mounts {
		names = append(names, m.name)
	}
	for _, l := range loads {
		works = append(works, l.name)
	}
	compareSides(b, names, works, func(b *testing.B, side, work int) float64 { return mounts[side].do(b, loads[work]) })
}

// unitVariables are the variables that the packaged unit sets, as NAME=VALUE.
func unitVariables(b *testing.B) (variables []string) {
	b.Helper()
	unit, err := os.ReadFile("../configs/systemd/rdmad.service")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if variable, found := strings.CutPrefix(strings.TrimSpace(line), "Environment="); found {
			variables = append(variables, variable)
		}
	}
	return variables
}

// unitEnvironment are shell commands that set the variables which the packaged
// unit sets.
func unitEnvironment(b *testing.B) string {
	b.Helper()
	var set strings.Builder
	for _, variable := range unitVariables(b) {
		set.WriteString("export " + variable + "\n")
	}
	return set.String()
}

// sideMount is one server's mount with a directory of its own.
type sideMount struct {
	*mount
	name string
}

func newSideMount(b *testing.B, g *guest.Guest, s nfsServer, name string) *sideMount {
	b.Helper()
	m := newMountAt(b, g, s, overRDMA, "/mnt/"+name)
	m.stats(b) // fails unless it is over RDMA
	m.client(b, "mkdir "+name)
	return &sideMount{m, name}
}

// do runs a load and returns its operations per second.
func (m *sideMount) do(b *testing.B, load sideLoad) float64 {
	b.Helper()
	m.g.MustRun(b, clientTime, "cd /export/"+m.name+"; "+load.before)
	m.refetch(b)
	return load.rate(b, m.client(b, "cd "+m.name+"\n"+load.script))
}
