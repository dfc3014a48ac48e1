package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// world is a fleet in memory: etcd, nodes and one controller that can die.
type world struct {
	now      time.Time
	revision int64
	policies map[Ref]*Revision
	rollouts map[Ref]*Rollout
	assigned map[string]Assigned
	nodes    map[string]*box

	view  *View     // of the controller; nil while there is none
	back  time.Time // when another one is elected
	kill  kill
	wrote int
}

// kill ends the controller at its n-th write, which is lost unless landed.
type kill struct {
	n      int
	landed bool
	away   time.Duration // until there is another controller
}

// box is a node as the agent and the settings make it.
type box struct {
	labels    Labels
	up        bool
	deaf      bool  // it reports, and reads nothing
	hangs     bool  // it neither reads nor reports
	has       []Ref // in force
	applied   int64
	takenBack int64
	old       []Ref // to go back to; for as long as deadline is to come
	oldAt     int64
	deadline  time.Time
	report    *Reported

	load        func([]Ref) Load
	conditions  func([]Ref) []Condition
	unsupported func([]Ref) uint32
	refuses     func([]Ref) string
}

func newWorld() *world {
	return &world{
		now: time.Unix(1_800_000_000, 0), policies: make(map[Ref]*Revision), rollouts: make(map[Ref]*Rollout),
		assigned: make(map[string]Assigned), nodes: make(map[string]*box),
	}
}

// with adds n nodes that are in racks r0 to r2 by turns.
func (w *world) with(n int) *world {
	for i := range n {
		w.join(fmt.Sprintf("n%02d", i), Labels{"role": "gateway", "rack": fmt.Sprintf("r%d", i%3)})
	}
	return w
}

func (w *world) join(name string, l Labels) *box {
	b := &box{labels: l, up: true}
	w.nodes[name] = b
	w.tellNode(name)
	return b
}

func (w *world) next() int64 { w.revision++; return w.revision }

// apply stores the next version of a policy, and begins its rollout.
func (w *world) apply(p Policy, plan *Plan) (*Rollout, error) {
	v := w.list()
	r := &Revision{Policy: p, Revision: 1}
	for ref := range w.policies {
		if ref.Policy == p.Name {
			r.Revision = max(r.Revision, ref.Revision+1)
		}
	}
	if err := v.Busy(&p); err != nil {
		return nil, err
	}
	rollout := v.Start(r, plan, w.now)
	rollout.Changed = w.next()
	w.policies[r.Ref()], w.rollouts[r.Ref()] = r, rollout
	if w.view != nil {
		w.view.Policies[r.Ref()], w.view.Rollouts[r.Ref()] = r, rollout
	}
	return rollout, nil
}

// change is an operator's request.
func (w *world) change(ref Ref, change func(r *Rollout, by string, now time.Time) (*Rollout, error)) error {
	next, err := change(w.rollouts[ref], "alice", w.now)
	if err == nil {
		w.put(next)
	}
	return err
}

func (w *world) put(r *Rollout) {
	r.Changed = w.next()
	w.rollouts[r.Ref] = r
	if w.view != nil {
		w.view.Rollouts[r.Ref] = r
	}
}

// list is what a new controller knows.
func (w *world) list() *View {
	v := NewView()
	maps.Copy(v.Policies, w.policies)
	maps.Copy(v.Rollouts, w.rollouts)
	for name, b := range w.nodes {
		m := &Member{Node: Node{Identity: Identity{Labels: b.labels}, Up: b.up, Assigned: w.assigned[name]}, Since: w.now}
		if m.Reports[0] = b.report; b.report != nil {
			b.report.Seen = w.now
		}
		v.Members[name] = m
	}
	return v
}

// tellNode gives the controller what it watches of a node.
func (w *world) tellNode(name string) {
	if w.view == nil {
		return
	}
	m, b := w.view.Members[name], w.nodes[name]
	if m == nil {
		m = &Member{}
		w.view.Members[name] = m
	}
	if m.Up != b.up {
		m.Since = w.now
	}
	m.Up, m.Labels = b.up, b.labels
	if b.report != m.Reports[0] {
		m.Reports = [2]*Reported{b.report, m.Reports[0]}
	}
}

// down has etcd hear nothing of a node any more.
func (w *world) down(name string) {
	w.nodes[name].up = false
	w.tellNode(name)
}

// pass lets a second pass: on the nodes, then for the controller.
func (w *world) pass() {
	w.now = w.now.Add(time.Second)
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		b := w.nodes[name]
		b.expire(w.now)
		if b.up && !b.hangs {
			read := w.assigned[name].At
			if b.deaf {
				read = b.applied
			} else {
				b.read(w.assigned[name], w.now)
			}
			b.says(read, w.next(), w.now)
			w.tellNode(name)
		}
	}
	if w.view == nil && !w.now.Before(w.back) {
		w.view = w.list()
	}
	if w.view != nil {
		w.control()
	}
}

func (b *box) expire(now time.Time) {
	if !b.deadline.IsZero() && !now.Before(b.deadline) {
		b.takeBack()
	}
}

func (b *box) takeBack() {
	b.has, b.takenBack, b.applied, b.deadline = b.old, b.applied, b.oldAt, time.Time{}
}

// read is what desired.Store.Assign does.
func (b *box) read(a Assigned, now time.Time) {
	if a.At == b.applied || a.At == b.takenBack || b.refuses != nil && b.refuses(a.Policies) != "" {
		return
	}
	if !b.deadline.IsZero() && (a.ConfirmWithin != 0 || !slices.Equal(a.Policies, b.has)) {
		b.takeBack()
	}
	b.deadline = time.Time{}
	if a.ConfirmWithin != 0 {
		b.old, b.oldAt, b.deadline = b.has, b.applied, now.Add(a.ConfirmWithin)
	}
	b.has, b.applied, b.takenBack = a.Policies, a.At, 0
}

func (b *box) says(assigned, at int64, now time.Time) {
	r := &Reported{At: at, Seen: now}
	r.Assigned, r.Applied = assigned, b.applied
	if b.applied != assigned {
		r.Refused = "refused"
	}
	if b.load != nil {
		r.Load = b.load(b.has)
	}
	if b.conditions != nil {
		r.Conditions = b.conditions(b.has)
	}
	if b.unsupported != nil {
		r.Outcomes.Unsupported = b.unsupported(b.has)
	}
	b.report = r
}

// dies counts a write of the controller, and reports whether the controller dies at it.
func (w *world) dies() bool {
	w.wrote++
	if w.wrote != w.kill.n {
		return false
	}
	w.view, w.back = nil, w.now.Add(w.kill.away)
	return true
}

// control is what the controller's term does, with one assignment to a write.
func (w *world) control() {
	for range 1000 {
		changes := w.view.Changes()
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			dies := w.dies()
			if dies && !w.kill.landed {
				return
			}
			w.assigned[name] = Assigned{changes[name], w.next()}
			if dies {
				return
			}
			w.view.Members[name].Assigned = w.assigned[name]
		}
		next, _ := w.view.Step(w.now)
		if next == nil {
			return
		}
		dies := w.dies()
		if !dies || w.kill.landed {
			w.put(next)
		}
		if dies {
			return
		}
	}
	next, _ := w.view.Step(w.now)
	panic(fmt.Sprintf("the controller writes without end, now %+v", next))
}

// fataler is a test, of testing or rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// until lets time pass until a rollout is settled.
func (w *world) until(t fataler, ref Ref) *Rollout {
	t.Helper()
	w.await(t, ref, "settled", (*Rollout).Settled)
	return w.rollouts[ref]
}

// await lets at most an hour pass until a rollout is so.
func (w *world) await(t fataler, ref Ref, what string, so func(*Rollout) bool) {
	t.Helper()
	for range 3600 {
		if so(w.rollouts[ref]) {
			return
		}
		w.pass()
	}
	t.Fatalf("not %s: %s: %s", what, w.text(ref), w.rollouts[ref].Reason)
}

// wave is whether a rollout's wave, from 0, is in a state.
func wave(i int, s WaveState) func(*Rollout) bool {
	return func(r *Rollout) bool { return i < len(r.Waves) && r.Waves[i].State == s }
}

// having are the nodes on which a version is in force.
func (w *world) having(ref Ref) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if slices.Contains(w.nodes[name].has, ref) {
			names = append(names, name)
		}
	}
	return names
}

// text is a rollout in one line.
func (w *world) text(ref Ref) string {
	r := w.rollouts[ref]
	parts := []string{r.State.String()}
	for _, wave := range r.Waves {
		parts = append(parts, fmt.Sprintf("%s(%s)", wave.State, strings.Join(wave.Nodes, " ")))
	}
	return strings.Join(parts, " ")
}

// quick is a plan whose waves take some seconds.
func quick() *Plan {
	p := DefaultPlan()
	p.Bake, p.ApplyWithin = 5*time.Second, 10*time.Second
	return p
}

// sized is a policy for all gateways.
func sized(name string, value uint32) Policy {
	var v live.Values
	v.Set(live.InlineSendMax, value)
	return Policy{Name: name, Selector: Selector{{Label: "role", Values: []string{"gateway"}}}, Settings: map[settings.Scope]live.Values{global: v}}
}

// begun is a world of n nodes with small@1 in force on all, in which the rollout of small@2 has
// begun.
func begun(t fataler, n int, plan *Plan) (*world, Ref) {
	t.Helper()
	w := newWorld().with(n)
	if _, err := w.apply(sized("small", 1024), nil); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.pass()
	if got := w.having(Ref{"small", 1}); len(got) != n {
		t.Fatalf("small@1 is on %v", got)
	}
	r, err := w.apply(sized("small", 2048), plan)
	if err != nil {
		t.Fatal(err)
	}
	w.wrote = 0
	return w, r.Ref
}
