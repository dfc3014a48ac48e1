package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
)

var (
	seed       = flag.Uint64("seed", 0, "seed of the first execution of TestRobustness; 0 for 1")
	executions = flag.Int("executions", 1, "executions of TestRobustness, each with the next seed")
	faultCount = flag.Int("faults", 6, "faults of an execution")
	outages    = flag.Bool("outages", false, "faults of TestRobustness that last longer than confirm windows, too")
)

// convergence bounds how long nodes may take to have what is in force after the last fault, with
// leases of 2 seconds and waits of up to 30 between two attempts. A rollout may first wait for the
// end of a confirm window.
const (
	convergence = 75 * time.Second
	longest     = convergence + time.Minute // with rollouts
)

// execution is one run of a fleet under faults: three members, three nodes, all processes.
type execution struct {
	ctx      context.Context
	t        *testing.T
	rnd      *rand.Rand
	network  *network
	etcd     *etcdtest.Cluster
	nodes    []*process
	journal  journal
	observer *observer
	admin    *node
	changes  *rand.Rand // of the policy; it has a goroutine of its own
	faults   []fault    // that may happen
	rollouts bool       // some changes are rollouts
	value    int
	began    []string // faults
	mu       sync.Mutex
}

// newExecution starts the fleet.
func newExecution(t *testing.T, seed uint64, p plants) *execution {
	t.Helper()
	x := &execution{
		ctx: t.Context(), t: t, rnd: rand.New(rand.NewPCG(seed, 0)), changes: rand.New(rand.NewPCG(seed, 1)), network: newNetwork(t, 3), faults: faults,
	}
	x.journal.more.L = &x.journal.mu
	x.etcd = etcdtest.StartCluster(t, etcdtest.Options{
		Members: 3, TLS: true, Via: func(i int) string { return x.network.proxies[i] },
		Flags: []string{"--heartbeat-interval", "50", "--election-timeout", "500"},
	})
	if err := x.etcd.Authenticate(t.Context()); err != nil {
		t.Fatal(err)
	}
	addUser(t, x.etcd, "gateway", etcdtest.ReadWrite(prefix+"/")...)
	x.admin = mustNode(t, "admin", "", "", of(t, x.etcd, "root"))
	t.Cleanup(func() { x.admin.store.Close() })
	x.observer = newObserver(x.admin.store)
	x.follow()
	if p.LeasedPolicy != 0 {
		lease, err := x.etcd.Client().Grant(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		x.admin.store.Client().KV = recordedKV{x.admin.store.Client().KV, &recorder{out: new(strings.Builder)}, x.admin, plants{LeasedPolicy: lease.ID}}
	}
	cert, key, err := x.etcd.CA.Sign("gateway", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		x.launch(processConfig{Name: fmt.Sprintf("gateway-%d", i+1), CA: x.etcd.CA.File, Cert: cert, Key: key, Plants: p})
	}
	return x
}

// follow runs the observer until the test ends.
func (x *execution) follow() {
	ctx, cancel := context.WithCancel(x.ctx)
	var done sync.WaitGroup
	done.Go(func() { x.observer.run(ctx) })
	x.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// launch starts a node, whose connections to etcd can be cut.
func (x *execution) launch(c processConfig) {
	x.t.Helper()
	n := &process{processConfig: c, journal: &x.journal}
	n.State = filepath.Join(x.t.TempDir(), "settings.db")
	for _, m := range x.etcd.Members {
		r := newRelay(x.t, strings.TrimPrefix(m.Endpoint, "https://"))
		n.relays, n.Endpoints = append(n.relays, r), append(n.Endpoints, "https://"+r.address)
	}
	if err := n.start(); err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(n.kill)
	x.nodes = append(x.nodes, n)
}

// run lets faults happen while the policy changes, and checks the history.
func (x *execution) run(faultCount int) error {
	changing, cancel := context.WithCancel(x.ctx)
	var changes sync.WaitGroup
	var failed error
	every := time.Duration(100+x.rnd.IntN(300)) * time.Millisecond
	changes.Go(func() {
		for pause(changing, every) && failed == nil {
			if x.rollouts && x.changes.IntN(3) == 0 {
				failed = x.rollOut(changing)
			} else {
				failed = x.change()
			}
		}
	})
	var err error
	for range faultCount {
		if err = x.fault(x.faults[x.rnd.IntN(len(x.faults))]); err != nil {
			break
		}
	}
	cancel()
	changes.Wait()
	if err == nil {
		err = failed
	}
	if err == nil { // the last change is one that nobody could follow
		err = x.fault(faults[slices.IndexFunc(faults, func(f fault) bool { return strings.HasSuffix(f.name, "a moment and compact") })])
	}
	if err != nil && !errors.Is(err, errForgot) {
		return fmt.Errorf("the execution is no good: %w", err)
	}
	return errors.Join(err, x.verdict())
}

// fault lets one fault happen, for at most four seconds.
func (x *execution) fault(f fault) error {
	member, node := x.rnd.IntN(3), x.rnd.IntN(3)
	length := time.Duration(200+x.rnd.IntN(3800)) * time.Millisecond
	if f.brief {
		length /= 5
	}
	x.t.Logf("%s (member %d, node %d) for %v", f.name, member+1, node+1, length)
	end, err := f.begin(x, member, node)
	if err != nil {
		return err
	}
	x.began = append(x.began, f.name)
	pause(x.ctx, length)
	if err := end(); err != nil {
		return err
	}
	pause(x.ctx, time.Duration(x.rnd.IntN(1000))*time.Millisecond)
	return nil
}

// verdict waits until all nodes have what is in force, ends the nodes, and checks what happened.
func (x *execution) verdict() error {
	err := x.observer.check(nil)
	if err == nil { // else they may never
		err = x.converge()
	}
	for _, n := range x.nodes {
		n.kill()
	}
	err = errors.Join(err, x.observer.await(x.ctx, x.newest()), x.observer.check(x.journal.records))
	for _, n := range x.nodes {
		err = errors.Join(err, linearizable(n.Name, x.journal.records))
	}
	return err
}

// newest is the revision of the newest change under the prefix.
func (x *execution) newest() int64 {
	res, err := x.get(prefix+"/", clientv3.WithLastRev()...)
	if err != nil || len(res.Kvs) == 0 {
		return 0
	}
	return res.Kvs[0].ModRevision
}

// converge waits until no rollout is active, all nodes report the revision in force, and nothing
// waits to be confirmed. That is the newest one, but for those that were taken back.
func (x *execution) converge() error {
	bound := convergence
	if x.rollouts {
		bound = longest
	}
	ctx, cancel := context.WithTimeout(x.ctx, bound)
	defer cancel()
	watch := x.admin.store.Client().Watch(ctx, x.admin.store.StatusKey(""), clientv3.WithPrefix())
	for {
		late := ""
		all, _, err := x.admin.store.AllNodes(ctx)
		err = errors.Join(err, lenient(x.observer.await(ctx, x.newest())))
		ref, open := x.observer.inForce()
		if open != nil {
			late += fmt.Sprintf("\n  rollout %+v", open)
		}
		if open != nil && open.State == fleet.Paused {
			err = errors.Join(err, x.alter(open.Ref, (*fleet.Rollout).Resume))
		}
		for _, n := range all {
			waits := x.observer.window(n.Name, n.Assigned.At)
			if n.Report == nil || !n.Up || waits || !at(ref, n) {
				late += fmt.Sprintf("\n  %s is to have %v, has assignment %d of %v, to be confirmed %v, up %v, report %+v", n.Name, ref, n.Assigned.At, n.Assigned.Policies, waits, n.Up, n.Report)
			}
		}
		if err == nil && late == "" && len(all) == len(x.nodes) {
			return nil
		}
		if _, ok := <-watch; !ok || ctx.Err() != nil {
			return fmt.Errorf("%d nodes of %d, not as they should be: %s", len(all), len(x.nodes), late)
		}
	}
}

// at reports whether a node has a revision in force and nothing else; nothing for the zero Ref.
func at(ref fleet.Ref, n *fleet.Node) bool {
	if ref.Revision == 0 {
		return len(n.Assigned.Policies) == 0 && !n.Drift()
	}
	return has(ref)(n)
}

// Whatever happens to members, nodes, controllers and the network, the history of the fleet is
// one of the model, and every node ends with the newest policy.
func TestRobustness(t *testing.T) {
	operations, back, began, ends := 0, 0, make(map[string]int), make(map[fleet.RolloutState]int)
	for i := range *executions {
		s := max(*seed, 1) + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			x := newExecution(t, s, plants{})
			x.rollouts, x.faults = true, slices.Concat(faults, clocks)
			if *outages {
				x.faults = append(x.faults, outage)
			}
			if err := x.run(*faultCount); err != nil {
				t.Errorf("with -seed %d -faults %d -outages=%v: %v", s, *faultCount, *outages, err)
			}
			operations += len(x.journal.records)
			for _, f := range x.began {
				began[f]++
			}
			for _, r := range x.observer.rollouts() {
				t.Log(r.Text())
				ends[r.State]++
			}
			for _, r := range x.journal.records {
				if r.Op == opBack && r.Outcome == done {
					back++
				}
			}
		})
	}
	sum := 0
	for _, f := range slices.Sorted(maps.Keys(began)) {
		fmt.Printf("%d × %s\n", began[f], f)
		sum += began[f]
	}
	fmt.Printf("%d executions, %d faults, %d records of operations\n", *executions, sum, operations)
	fmt.Printf("%d rollouts done, %d rolled back, %d aborted; %d times a node took back what it was assigned\n",
		ends[fleet.Done], ends[fleet.RolledBack], ends[fleet.Aborted], back)
}

// Each planted bug is found within a few executions.
func TestPlantedBugs(t *testing.T) {
	for _, c := range []struct {
		name   string
		plants plants
		budget int // executions
		faults int // of each
		want   string
	}{
		{"no list after a compaction", plants{NoRelist: true}, 3, *faultCount, "not as they should be"},
		{"no fence", plants{NoFence: true}, 6, *faultCount, "is not one of the model"},
		{"a policy with a lease", plants{LeasedPolicy: 1}, 1, *faultCount, "has a lease"},
		{"a node forgets that it waits", plants{NoWindow: true}, 4, 3, "waits to be confirmed: false, want true"},
		{"a controller forgets to confirm", plants{NoConfirm: true}, 4, 3, "which is not confirmed"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			for s := range uint64(c.budget) {
				x := newExecution(t, s+1, c.plants)
				x.rollouts = c.plants.NoWindow || c.plants.NoConfirm
				if err := x.run(c.faults); err != nil && strings.Contains(err.Error(), c.want) {
					fmt.Printf("%s: found by seed %d\n", c.name, s+1)
					return
				} else if err != nil {
					t.Logf("seed %d: %v", s+1, err)
				}
			}
			t.Errorf("not found in %d executions", c.budget)
		})
	}
}
