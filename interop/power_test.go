package interop

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/interop/disk"
	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

var (
	powerFailures = flag.Int("power.failures", 10, "`number` of moments at which the power fails in TestPowerFailure; 20 at most")
	powerWork     = flag.Int("power.work", 60, "`number` of operations of each client before that")
	powerSeed     = flag.Uint64("power.seed", 0, "chooses these moments and what is lost; 0 takes one by chance")
)

const (
	// powerDisk is the size of the disk in bytes.
	powerDisk = 96 << 20
	// powerTime bounds each start of rdmad on that disk, and all work on it.
	powerTime = 5 * time.Minute
	// powerPort is where the guest serves NFS, the default, and unsyncedPort
	// where it serves another directory with async_metadata.
	powerPort, unsyncedPort = 20049, 20059
)

const powerConfig = `control: {listen: "127.0.0.1:20050"}
metrics: {listen: ""}
state: {path: /data/state}
listeners:
- {name: nfs, provider: softiwarp, address: "0.0.0.0:20049", service: export}
- {name: unsynced, provider: softiwarp, address: "0.0.0.0:20059", service: unsynced}
services:
- {name: export, nfs: {path: /data/export}}
- {name: unsynced, nfs: {path: /data/unsynced, async_metadata: true}}
`

// TestPowerFailure makes the power of a machine fail at many moments, most of them right
// after an answer. Writes that were not flushed are lost in whole or in part. Everything
// that rdmad had answered by then must be on the disk: stable WRITEs, COMMITs, names,
// settings with their entries in the audit log, listeners. Handles that clients have must
// still be good. A directory served with async_metadata shows that the test sees losses.
func TestPowerFailure(t *testing.T) {
	seed := *powerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-power.seed %d", seed)
	p := &power{disk: disk.New(powerDisk), rnd: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir()}
	for _, name := range []string{"rdmad", "rdmactl"} {
		build(t, p.dir, name)
	}
	if !t.Run("work", p.work) {
		return
	}
	t.Run("failures", p.failures)
}

type power struct {
	disk    *disk.Disk
	rnd     *rand.Rand
	dir     string // programs
	history history
	handles map[string][]byte // of files by name
	// verifier is the write verifier before the failure.
	verifier nfstest.Verifier
	// unsynced is a moment right after names that nothing has brought to the disk.
	unsynced int
}

// work writes to the disk through a guest's rdmad, and notes when each answer came.
func (p *power) work(t *testing.T) {
	socket := filepath.Join(p.dir, "disk")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- p.disk.Serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	g := guest.Boot(t, guest.Options{Disks: []string{"nbd+unix:///?socket=" + socket}, Forward: []int{powerPort, unsyncedPort}})
	p.bring(t, g)
	g.MustRun(t, powerTime, `set -e
/sbin/modprobe virtio_blk; /sbin/modprobe ext4
/sbin/mke2fs -q -t ext4 -J size=4 /dev/vda
mkdir /data; mount -t ext4 /dev/vda /data; mkdir -m 777 /data/export /data/unsynced; sync`)
	startPowered(t, g)
	export, unsynced := p.mount(t, g, powerPort), p.mount(t, g, unsyncedPort)
	p.handles = map[string][]byte{"": export.Root}
	for _, name := range []string{"stable", "committed"} {
		p.handles[name] = export.Create(name)
	}
	var all sync.WaitGroup
	for _, client := range []func(){
		func() { p.stable(export) },
		func() { p.committed(t, export) },
		func() { p.names(export, "name/") },
		func() { p.names(unsynced, "unsynced/") },
		func() { p.settings(t, g) },
	} {
		all.Go(client)
	}
	all.Wait()
	p.last(unsynced)
	t.Run("errors", func(t *testing.T) { p.errors(t, g, export) })
}

// bring puts the programs and the configuration into the guest.
func (p *power) bring(t *testing.T, g *guest.Guest) {
	t.Helper()
	for _, name := range []string{"rdmad", "rdmactl"} {
		if err := os.Link(filepath.Join(p.dir, name), filepath.Join(g.ShareDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(g.ShareDir, "rdmad.yaml"), []byte(powerConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	g.MustRun(t, powerTime, "cp /host/rdmad /host/rdmactl /tmp/")
}

// startPowered starts rdmad on /data.
func startPowered(t *testing.T, g *guest.Guest) *guest.Command {
	t.Helper()
	g.MustRun(t, powerTime, "rm -f /tmp/log /tmp/pid") // of one before
	command := startScript(t, g, "echo $$ >/tmp/pid; exec /tmp/rdmad --config /host/rdmad.yaml --log-format json >/tmp/log 2>&1")
	g.MustRun(t, powerTime, `until grep -qs '"msg":"ready"' /tmp/log; do
	sleep 0.1
	[ ! -s /tmp/pid ] || kill -0 $(cat /tmp/pid) || { cat /tmp/log >&2; exit 1; }
done`)
	return command
}

// mount dials an rdmad in the guest.
func (p *power) mount(t *testing.T, g *guest.Guest, port int) *nfstest.Client3 {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(g.HostPort(port)))
	c, err := rpcrdma.Dial(t.Context(), newSoftiwarp(t, softiwarp.Config{}), address, rpcrdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	client := &nfstest.Client3{T: t, Carrier: nfstest.RDMA{Client: c, Auth: rootCred()}}
	client.Mount("/")
	return client
}

// Sizes of the blocks written to the two files, in bytes, and the number of blocks
// of each file. Every sector of a block holds the number of its write.
const (
	stableBlock    = 4 << 10
	committedBlock = 16 << 10
	powerBlocks    = 40
	powerSector    = 512
)

// numbered returns a block's contents after its n-th write.
func numbered(n, size int) []byte {
	sector := fmt.Sprintf("%-*d", powerSector, n)
	return []byte(strings.Repeat(sector, size/powerSector))
}

// stable writes blocks with FILE_SYNC: when a WRITE is answered, its block is on
// the disk.
func (p *power) stable(c *nfstest.Client3) {
	for i := range *powerWork {
		block := i * 7 % powerBlocks
		done := p.history.asked(p.disk.Position(), object("stable", block), strconv.Itoa(i+1))
		c.WriteBytes(p.handles["stable"], uint64(block)*stableBlock, numbered(i+1, stableBlock), true)
		done(p.disk.Position())
	}
}

// committed writes blocks, three at a time, with UNSTABLE. They are on the disk
// when a COMMIT is answered with the verifier of their WRITEs.
func (p *power) committed(t *testing.T, c *nfstest.Client3) {
	p.verifier = c.Commit(p.handles["committed"])
	for i := range *powerWork {
		var done []func(int)
		for j := range 3 {
			block := (3*i + j) * 7 % powerBlocks
			done = append(done, p.history.asked(p.disk.Position(), object("committed", block), strconv.Itoa(i+1)))
			p.lives(t, c.WriteBytes(p.handles["committed"], uint64(block)*committedBlock, numbered(i+1, committedBlock), false))
		}
		p.lives(t, c.Commit(p.handles["committed"]))
		now := p.disk.Position()
		for _, f := range done {
			f(now)
		}
	}
}

// lives compares a verifier with the one that the work began with.
func (p *power) lives(t *testing.T, verifier nfstest.Verifier) {
	if verifier != p.verifier {
		t.Errorf("the verifier is %x, was %x", verifier, p.verifier)
	}
}

// names makes, renames and removes names in the root.
func (p *power) names(c *nfstest.Client3, kind string) {
	do := func(op func(), change ...string) {
		var done []func(int)
		for i := 0; i < len(change); i += 2 {
			done = append(done, p.history.asked(p.disk.Position(), kind+change[i], change[i+1]))
		}
		op()
		now := p.disk.Position()
		for _, f := range done {
			f(now)
		}
	}
	for i := range *powerWork {
		name, other := fmt.Sprintf("n%d", i), fmt.Sprintf("r%d", i)
		switch i % 5 {
		case 0:
			do(func() { c.Mkdir(name) }, name, "/")
			do(func() { c.Rmdir(name) }, name, "")
		case 1:
			do(func() { c.Symlink(name, "target") }, name, "@")
		case 2:
			do(func() { c.Create(name) }, name, "file")
			do(func() { c.Rename(name, other) }, name, "", other, "file")
		case 3:
			do(func() { c.Create(name) }, name, "file")
			do(func() { c.Link(c.Lookup(name), other) }, other, "file")
			do(func() { c.Remove(name) }, name, "")
		case 4:
			do(func() { c.Mkdir(name) }, name, "/")
		}
	}
}

// last makes names in the directory that is not synced while no other client has the
// file system write them.
func (p *power) last(c *nfstest.Client3) {
	for i := range 5 {
		name := fmt.Sprintf("last%d", i)
		done := p.history.asked(p.disk.Position(), "unsynced/"+name, "/")
		c.Mkdir(name)
		p.unsynced = p.disk.Position()
		done(p.unsynced)
	}
}

// settings changes a setting again and again, and adds listeners, with rdmactl in
// the guest. It waits for each answer before it makes the next change.
func (p *power) settings(t *testing.T, g *guest.Guest) {
	const set = "/tmp/rdmactl --timeout 60s settings set ddp.min_chunk=%d"
	const add = "/tmp/rdmactl --timeout 60s listeners add added-%[1]d --provider softiwarp --address 127.0.0.1:0 --service export"
	for i := range max(1, *powerWork/4) {
		now := p.disk.Position()
		setting := p.history.asked(now, "setting", strconv.Itoa(i+1))
		entry := p.history.asked(now, object("audit", i+1), "entry")
		g.MustRun(t, powerTime, fmt.Sprintf(set, i+1))
		now = p.disk.Position()
		setting(now)
		entry(now)
		if i%5 == 0 {
			added := p.history.asked(now, object("listener", i+1), "added")
			g.MustRun(t, powerTime, fmt.Sprintf(add, i+1))
			added(p.disk.Position())
		}
	}
}

// failures checks the disk after each of several power failures, all in one guest.
func (p *power) failures(t *testing.T) {
	n := min(*powerFailures, 20)
	moments := append(p.history.moments(p.rnd, n), p.unsynced)
	o := guest.Options{Forward: []int{powerPort, unsyncedPort}}
	losses := make([]disk.Loss, len(moments)) // of the last one all
	for i, at := range moments {
		if i < n {
			losses[i] = disk.Loss(i / 7 % 3)
		}
		medium, err := p.disk.After(at, losses[i], p.rnd.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(p.dir, fmt.Sprintf("medium%d", i))
		if err := os.WriteFile(path, medium, 0o600); err != nil {
			t.Fatal(err)
		}
		o.Disks = append(o.Disks, path)
	}
	g := guest.Boot(t, o)
	p.bring(t, g)
	g.MustRun(t, powerTime, "/sbin/modprobe virtio_blk; /sbin/modprobe ext4; mkdir /data")
	lost := 0
	for i, at := range moments {
		t.Run(fmt.Sprintf("at %d of %d, losing %v", at, p.disk.Position(), losses[i]), func(t *testing.T) {
			found := p.look(t, g, fmt.Sprintf("/dev/vd%c", 'a'+i))
			for _, wrong := range p.history.compare(at, found) {
				if strings.HasPrefix(wrong, "unsynced/") {
					lost++
				} else {
					t.Error(wrong)
				}
			}
		})
	}
	t.Logf("%d names of async_metadata lost", lost)
	if lost == 0 {
		t.Error("no name was lost in the directory that is not synced: the failures lose nothing, or the comparison sees nothing")
	}
}

// look mounts a disk, starts rdmad and returns all objects that it finds.
func (p *power) look(t *testing.T, g *guest.Guest, device string) found {
	t.Helper()
	f := make(found)
	g.MustRun(t, powerTime, fmt.Sprintf("mount -t ext4 %s /data; cp /data/export/stable /data/export/committed /host/", device))
	defer g.MustRun(t, powerTime, "umount /data")
	f.blocks(t, g, "stable", stableBlock)
	f.blocks(t, g, "committed", committedBlock)
	f.names(g.MustRun(t, powerTime, "ls -1F /data/export"), "name/")
	f.names(g.MustRun(t, powerTime, "ls -1F /data/unsynced"), "unsynced/")
	command := startPowered(t, g)
	defer func() {
		g.MustRun(t, powerTime, "kill -TERM $(cat /tmp/pid)")
		finish(t, command)
	}()
	settings := g.MustRun(t, powerTime, "/tmp/rdmactl --timeout 60s -o json settings get ddp.min_chunk --scope global")
	if m := changedTo.FindStringSubmatch(settings); m != nil {
		f.add("setting", m[1])
	}
	for _, m := range audited.FindAllStringSubmatch(g.MustRun(t, powerTime, "/tmp/rdmactl --timeout 60s -o json audit --limit 0"), -1) {
		f.add("audit/"+m[1], "entry")
	}
	for _, m := range listenerAdded.FindAllStringSubmatch(g.MustRun(t, powerTime, "/tmp/rdmactl --timeout 60s -o json listeners list"), -1) {
		f.add("listener/"+m[1], "added")
	}
	c := p.mount(t, g, powerPort)
	for name, handle := range p.handles {
		if !c.Good(handle) {
			t.Errorf("the handle of /%s is bad", name)
		}
	}
	if c.Commit(p.handles["committed"]) == p.verifier {
		t.Error("the verifier is that of before the failure: clients would not send again what was not committed")
	}
	return f
}

var (
	changedTo     = regexp.MustCompile(`"value": *"(\d+)",\s*"source": *"global"`)
	listenerAdded = regexp.MustCompile(`"name": *"added-(\d+)"`)
	audited       = regexp.MustCompile(`"after": *"ddp.min_chunk=(\d+)",\s*"outcome": *"OK"`)
)

// found are the values of an object: one, or one for each different sector.
type found map[string][]string

func (f found) add(object, value string) {
	if !slices.Contains(f[object], value) {
		f[object] = append(f[object], value)
	}
}

func (f found) blocks(t *testing.T, g *guest.Guest, name string, size int) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(g.ShareDir, name))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(content); at += powerSector {
		sector := content[at:min(at+powerSector, len(content))]
		f.add(object(name, at/size), strings.Trim(string(sector), " \x00"))
	}
}

func (f found) names(list, kind string) {
	for name := range strings.FieldsSeq(list) {
		bare := strings.TrimRight(name, "/@*")
		f.add(kind+bare, "file")
		if bare != name {
			f[kind+bare] = []string{name[len(bare):]}
		}
	}
}

func object(kind string, n int) string { return fmt.Sprintf("%s/%d", kind, n) }

// history has the values that were asked for, by object, and when each was
// answered. All moments are positions of the disk. An object's first value is "".
type history struct {
	mu      sync.Mutex
	objects map[string][]version
}

type version struct {
	value           string
	asked, answered int
}

// asked notes a new value of an object. Call the returned function with the moment
// after the answer. Until then, nothing else may change the object.
func (h *history) asked(at int, object, value string) (answered func(at int)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects == nil {
		h.objects = make(map[string][]version)
	}
	h.objects[object] = append(h.objects[object], version{value: value, asked: at, answered: -1})
	i := len(h.objects[object]) - 1
	return func(at int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.objects[object][i].answered = at
	}
}

// moments are n moments at which the power fails. They repeat a cycle: one right
// after an answer for each kind of object, then a random one.
func (h *history) moments(rnd *rand.Rand, n int) []int {
	answered := make(map[string][]int) // by kind
	first, last := 1<<62, 0
	for object, versions := range h.objects {
		kind, _, _ := strings.Cut(object, "/")
		for _, v := range versions {
			answered[kind] = append(answered[kind], v.answered)
			first, last = min(first, v.asked), max(last, v.answered)
		}
	}
	kinds := slices.Sorted(maps.Keys(answered))
	all := make([]int, n)
	for i := range all {
		turn := i % (len(kinds) + 1)
		if turn == len(kinds) {
			all[i] = first + rnd.IntN(last-first+1)
			continue
		}
		of := answered[kinds[turn]]
		slices.Sort(of) // the order of a map does not depend on the seed
		all[i] = of[rnd.IntN(len(of))]
	}
	return all
}

// compare returns the faults of the values found after a failure at a moment:
// values older than one that was answered, or never asked for.
func (h *history) compare(at int, f found) (wrong []string) {
	for object, versions := range h.objects {
		allowed := []string{""}
		for _, v := range versions {
			if v.answered >= 0 && v.answered <= at {
				allowed = allowed[:0]
			}
			if v.asked < at {
				allowed = append(allowed, v.value)
			}
		}
		values := f[object]
		if len(values) == 0 {
			values = []string{""}
		}
		for _, value := range values {
			if !slices.Contains(allowed, value) {
				wrong = append(wrong, fmt.Sprintf("%s: %q, of %q", object, value, allowed))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestHistory looks at one object at all moments.
func TestHistory(t *testing.T) {
	var h history
	h.asked(10, "x", "a")(20)
	h.asked(30, "x", "b")
	for at, want := range map[int]string{10: "", 11: " a", 19: " a", 20: "a", 30: "a", 31: "ab"} {
		for _, value := range []string{"", "a", "b", "c"} {
			wrong := h.compare(at, found{"x": {value}})
			allowed := value != "" && strings.Contains(want, value) || value == "" && (want == "" || want[0] == ' ')
			if allowed != (len(wrong) == 0) {
				t.Errorf("%q at %d: %q", value, at, wrong)
			}
		}
	}
}
