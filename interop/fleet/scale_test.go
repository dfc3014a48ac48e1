package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
)

var (
	scaleNodes   = flag.Int("scale.nodes", 12, "nodes of TestScale in the end")
	scaleSteps   = flag.Int("scale.steps", 1, "steps in which they are started; each is measured")
	scaleChanges = flag.Int("scale.changes", 2, "changes of each step")
	scaleWindow  = flag.Duration("scale.window", 2*time.Second, "for how long load without changes is measured")
)

// maxLists bounds how often a node lists its assignment while nobody can reach etcd, and after.
// The waits between lists double up to half a minute.
const maxLists = 16

// crowd is many nodes in one process, on three members behind relays.
type crowd struct {
	t      *testing.T
	etcd   *etcdtest.Cluster
	relays []*relay
	config store.Config
	admin  *node
	nodes  []*member
}

// member is a node that is counted and timed.
type member struct {
	*node
	stop  func()
	lists atomic.Int64
	mu    sync.Mutex
	at    map[string]time.Time // when policies came in force
}

// timed notes when assignments come in force.
type timed struct {
	*desired.Store
	m *member
}

func (l timed) Assign(f settings.FleetLayer, confirmWithin time.Duration) (desired.Result, bool, error) {
	res, ok, err := l.Store.Assign(f, confirmWithin)
	now := time.Now()
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	for _, v := range f.Scopes {
		for _, policy := range v.Policies {
			if _, known := l.m.at[policy]; !known && err == nil {
				l.m.at[policy] = now
			}
		}
	}
	return res, ok, err
}

// counted counts lists of assignments.
type counted struct {
	clientv3.KV
	m *member
}

func (c counted) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if key == c.m.store.AssignmentKey(c.m.name) {
		c.m.lists.Add(1)
	}
	return c.KV.Get(ctx, key, o...)
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t, etcd: secure(t)}
	addUser(t, c.etcd, "gateway", etcdtest.ReadWrite(prefix+"/")...)
	c.config = of(t, c.etcd, "gateway")
	for i, e := range c.config.Endpoints {
		r := newRelay(t, strings.TrimPrefix(e, "https://"))
		c.relays = append(c.relays, r)
		c.config.Endpoints[i] = "https://" + r.address
	}
	c.admin = mustNode(t, "admin", "", "", of(t, c.etcd, "root"))
	t.Cleanup(func() { c.admin.store.Close() })
	return c
}

// grow starts nodes until there are n.
func (c *crowd) grow(n int) {
	for i := len(c.nodes); i < n; i++ {
		c.nodes = append(c.nodes, c.join(i, nil))
	}
}

// join starts a node, with what an earlier process of it has stored.
func (c *crowd) join(i int, stored *desired.Store) *member {
	m := &member{at: make(map[string]time.Time)}
	m.node = mustNode(c.t, fmt.Sprintf("gateway-%03d", i), "role=gateway", "", c.config)
	if stored != nil {
		m.settings = stored
	}
	m.agent.Local = timed{m.settings, m}
	m.store.Client().KV = counted{m.store.Client().KV, m}
	m.stop = m.start(c.t)
	return m
}

func (c *crowd) names() (all []string) {
	for _, m := range c.nodes {
		all = append(all, m.name)
	}
	return all
}

// change applies a policy, waits until all nodes have it in force, and returns how long each
// took.
func (c *crowd) change(value int) (took []time.Duration) {
	c.t.Helper()
	began := time.Now()
	ref := c.apply(value)
	awaitReports(c.t, c.admin.store, c.names(), has(ref))
	for _, m := range c.nodes {
		m.mu.Lock()
		took = append(took, m.at[ref.String()].Sub(began))
		m.mu.Unlock()
	}
	return took
}

// apply applies a policy, again if etcd takes long to answer.
func (c *crowd) apply(value int) fleet.Ref {
	c.t.Helper()
	for {
		ref, err := c.admin.apply(c.t.Context(), small(value))
		if err == nil {
			return ref
		}
		if !errors.Is(err, context.DeadlineExceeded) || c.t.Context().Err() != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *crowd) compact() {
	c.t.Helper()
	now := c.etcd.Do(c.t, clientv3.OpGet("x")).Get().Header.Revision
	if _, err := c.etcd.Client().Compact(c.t.Context(), now, clientv3.WithCompactPhysical()); err != nil {
		c.t.Fatal(err)
	}
}

// lists returns the sum and the greatest of the nodes' lists, and counts from 0 again.
func (c *crowd) lists() (sum, most int64) {
	for _, m := range c.nodes {
		n := m.lists.Swap(0)
		sum, most = sum+n, max(most, n)
	}
	return sum, most
}

// Many nodes follow changes; after a restart of all, and after a time without etcd during which
// what they wait for is compacted, every node converges with a bounded number of lists.
func TestScale(t *testing.T) {
	c := newCrowd(t)
	value := 2048
	fmt.Println(loadHeader)
	for step := 1; step <= *scaleSteps; step++ {
		c.grow(*scaleNodes * step / *scaleSteps)
		c.change(value)
		var took []time.Duration
		for range *scaleChanges {
			value += 4
			took = append(took, c.change(value)...)
		}
		fmt.Println(c.load(took))
	}
	c.lists()

	for _, r := range c.relays {
		r.cut()
	}
	value += 4
	ref := c.apply(value)
	c.etcd.Put(t, "/other", "so that all that was watched is compacted")
	c.compact()
	for _, r := range c.relays {
		r.restore()
	}
	c.converge("a cut with compaction", ref)

	for i, m := range c.nodes {
		m.stop()
		if i == len(c.nodes)/2 {
			value += 4
			ref = c.apply(value)
		}
	}
	c.compact()
	for i, m := range c.nodes {
		c.nodes[i] = c.join(i, m.settings)
	}
	c.converge("a restart of all with compaction", ref)
	c.sizes()
}

// converge waits until all nodes have a policy, and checks how often they listed.
func (c *crowd) converge(after string, ref fleet.Ref) {
	c.t.Helper()
	began := time.Now()
	awaitReports(c.t, c.admin.store, c.names(), has(ref))
	sum, most := c.lists()
	fmt.Printf("after %s: %d nodes converge in %.1f s with %d lists, at most %d of a node\n", after, len(c.nodes), time.Since(began).Seconds(), sum, most)
	if sum < int64(len(c.nodes)) || most > maxLists {
		c.t.Errorf("%d lists, at most %d of a node", sum, most)
	}
}

const loadHeader = "nodes  change p50 ms  p99 ms  writes/s  etcd CPU %  watches  sent KB/s  etcd MiB"

// load measures a time without changes.
func (c *crowd) load(took []time.Duration) string {
	slices.Sort(took)
	before, began := c.usage(), time.Now()
	<-time.After(*scaleWindow)
	after, s := c.usage(), time.Since(began).Seconds()
	return fmt.Sprintf("%5d  %13d  %6d  %8.1f  %10.1f  %7.0f  %9.1f  %8.1f", len(c.nodes), took[len(took)/2].Milliseconds(), took[len(took)*99/100].Milliseconds(),
		(after.revision-before.revision)/s, 100*(after.cpu-before.cpu).Seconds()/s, after.watches, (after.sent-before.sent)/s/1e3, after.memory/(1<<20))
}

// usage is what the members have used up to now.
type usage struct {
	revision, watches, sent, memory float64
	cpu                             time.Duration
}

func (c *crowd) usage() (u usage) {
	c.t.Helper()
	u.revision = float64(c.etcd.Do(c.t, clientv3.OpGet("x")).Get().Header.Revision)
	for _, m := range c.etcd.Members {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.Pid()))
		if err != nil {
			c.t.Fatal(err)
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
		for _, ticks := range fields[11:13] { // user and system time, in 10 ms
			var n int64
			fmt.Sscan(ticks, &n)
			u.cpu += time.Duration(n) * 10 * time.Millisecond
		}
		var pages float64
		fmt.Sscan(fields[21], &pages)
		u.memory += pages * float64(os.Getpagesize())
		figures, err := c.etcd.Metrics(c.t.Context(), m)
		if err != nil {
			c.t.Fatal(err)
		}
		u.watches += figures["etcd_debugging_mvcc_watcher_total"]
		u.sent += figures["etcd_network_client_grpc_sent_bytes_total"]
	}
	return u
}

// sizes prints keys and bytes by folder.
func (c *crowd) sizes() {
	c.t.Helper()
	keys, bytes := map[string]int{}, map[string]int{}
	_, err := c.admin.store.List(c.t.Context(), prefix+"/", func(kv *mvccpb.KeyValue) {
		folder, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix+"/"), "/")
		keys[folder]++
		bytes[folder] += len(kv.Key) + len(kv.Value)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, folder := range slices.Sorted(maps.Keys(keys)) {
		fmt.Printf("%-9s %5d keys, %4d bytes each\n", folder, keys[folder], bytes[folder]/keys[folder])
	}
}
