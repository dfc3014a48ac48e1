package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// observer sees all changes of a fleet's keys, in the order of etcd. It watches the members
// themselves, and nothing is compacted that it has not seen.
type observer struct {
	store  *store.Store
	mu     sync.Mutex
	more   sync.Cond
	seen   int64
	events []*clientv3.Event
	view   *fleet.View // after the events
}

func newObserver(s *store.Store) *observer {
	o := &observer{store: s, view: fleet.NewView()}
	o.more.L = &o.mu
	return o
}

func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		for res := range o.store.Client().Watch(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithRev(o.revision()+1)) {
			if res.Err() != nil {
				break
			}
			o.mu.Lock()
			o.seen = max(o.seen, res.Header.Revision)
			o.events = append(o.events, res.Events...)
			for _, e := range res.Events {
				_ = o.store.Take(o.view, e.Kv, e.Type == mvccpb.DELETE, time.Now()) // checked in the end
			}
			o.more.Broadcast()
			o.mu.Unlock()
		}
	}
}

func (o *observer) revision() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen
}

// await waits until all up to a revision was seen.
func (o *observer) await(ctx context.Context, revision int64) error {
	return o.until(ctx, func() bool { return o.seen >= revision })
}

// until waits until ok, which is called with mu held.
func (o *observer) until(ctx context.Context, ok func() bool) error {
	stop := context.AfterFunc(ctx, o.wake)
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !ok() && ctx.Err() == nil {
		o.more.Wait()
	}
	return ctx.Err()
}

func (o *observer) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.more.Broadcast()
}

// rollouts are those that had waves, as etcd had them last.
func (o *observer) rollouts() map[fleet.Ref]*fleet.Rollout {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[fleet.Ref]*fleet.Rollout)
	for _, e := range o.events {
		v := fleet.NewView()
		if strings.HasPrefix(string(e.Kv.Key), rollouts) && e.Type == mvccpb.PUT && o.store.Take(v, e.Kv, false, time.Now()) == nil {
			for ref, r := range v.Rollouts {
				if len(r.Waves) > 0 {
					all[ref] = r
				}
			}
		}
	}
	return all
}

// inForce is the revision that all nodes are to have, and open the rollout that has not ended.
func (o *observer) inForce() (ref fleet.Ref, open *fleet.Rollout) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.view.Rollouts {
		if r.State == fleet.Done && r.Revision > ref.Revision {
			ref = r.Ref
		}
		if !r.Settled() {
			open = r
		}
	}
	return ref, open
}

// window reports whether a revision is that of an assignment with a confirm window.
func (o *observer) window(node string, revision int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kv.ModRevision == revision && string(e.Kv.Key) == o.store.AssignmentKey(node) {
			var a store.Assignment
			a.Take(e.Kv)
			return a.ConfirmWithin != 0
		}
	}
	return false
}

// check compares the history with what etcd saw, and etcd's keys with what never happens to
// them.
func (o *observer) check(records []record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := verdict{
		o: o, terms: make(map[string]int64), policies: make(map[fleet.Ref]*fleet.Revision), assigned: make(map[string]map[int64]string),
		view: fleet.NewView(), last: make(map[string]fleet.Ref), back: make(map[string]fleet.Ref),
	}
	writes := make(map[int64]record)
	for _, r := range records {
		if r.Op == opWrite && r.Outcome == done {
			writes[r.Rev] = r
		}
	}
	for _, e := range o.events {
		v.event(e, writes)
	}
	for _, r := range records {
		if r.Outcome == done && (r.Op == opApply || r.Op == opStart || r.Op == opBack) {
			v.whole(r)
		}
	}
	return errors.Join(v.wrong...)
}

type verdict struct {
	o        *observer
	terms    map[string]int64 // keys of the election, and when they were made
	policies map[fleet.Ref]*fleet.Revision
	assigned map[string]map[int64]string
	view     *fleet.View
	last     map[string]fleet.Ref // revision that each node was assigned
	back     map[string]fleet.Ref // the newest that was taken back from it
	wrong    []error
}

func (v *verdict) fail(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Errorf(format, args...))
}

func (v *verdict) event(e *clientv3.Event, writes map[int64]record) {
	key, s := string(e.Kv.Key), v.o.store
	gone := e.Type == mvccpb.DELETE
	switch {
	case strings.HasPrefix(key, s.ElectionKey()):
		v.terms[key] = e.Kv.CreateRevision
		if gone {
			delete(v.terms, key)
		}
	case strings.HasPrefix(key, s.AssignmentKey("")):
		node := strings.TrimPrefix(key, s.AssignmentKey(""))
		if v.assigned[node] == nil {
			v.assigned[node] = make(map[int64]string)
		}
		v.assigned[node][e.Kv.ModRevision] = string(e.Kv.Value)
		if gone {
			v.fail("revision %d: %s is gone", e.Kv.ModRevision, key)
			break
		}
		v.fenced(e, writes)
		v.assignment(node, e)
	case strings.HasPrefix(key, s.Policies()):
		v.policy(e, gone)
	case strings.HasPrefix(key, rollouts):
		v.fenced(e, writes)
		v.rollout(e, gone)
	}
}

// fenced checks that a write of a controller is of the one that leads.
func (v *verdict) fenced(e *clientv3.Event, writes map[int64]record) {
	if w, known := writes[e.Kv.ModRevision]; known && w.Term != v.leader() {
		v.fail("revision %d: %s was written in term %d, while %d is the controller's", e.Kv.ModRevision, e.Kv.Key, w.Term, v.leader())
	}
}

// leader is the revision of the election's oldest key.
func (v *verdict) leader() (oldest int64) {
	for made := range maps.Values(v.terms) {
		if oldest == 0 || made < oldest {
			oldest = made
		}
	}
	return oldest
}

func (v *verdict) policy(e *clientv3.Event, gone bool) {
	switch {
	case gone && len(v.policies) > store.KeptRevisions: // the oldest one
	case gone:
		v.fail("revision %d: %s is gone", e.Kv.ModRevision, e.Kv.Key)
	case e.Kv.Version != 1:
		v.fail("revision %d: %s was changed", e.Kv.ModRevision, e.Kv.Key)
	case e.Kv.Lease != 0:
		v.fail("revision %d: %s has a lease", e.Kv.ModRevision, e.Kv.Key)
	default:
		r, err := v.o.store.DecodePolicy(e.Kv)
		if err != nil {
			v.fail("revision %d: %w", e.Kv.ModRevision, err)
			return
		}
		v.policies[r.Ref()] = r
	}
}

// rollout checks a step of a rollout: what has ended or is halted stays so, and a revision that
// does harm never is in force everywhere.
func (v *verdict) rollout(e *clientv3.Event, gone bool) {
	ref, err := fleetproto.Ref(strings.TrimPrefix(string(e.Kv.Key), rollouts))
	was := v.view.Rollouts[ref]
	err = errors.Join(err, v.o.store.Take(v.view, e.Kv, gone, time.Now()))
	is := v.view.Rollouts[ref]
	switch {
	case err != nil:
		v.fail("revision %d: %w", e.Kv.ModRevision, err)
	case gone && (was == nil || was.State.Active()):
		v.fail("revision %d: rollout %s is gone", e.Kv.ModRevision, ref)
	case gone: // an old one; the controller may not know yet
		v.view.Rollouts[ref] = was
	case was != nil && was.State.Ended() && is.State != was.State, was != nil && was.State == fleet.Halted && (is.State < fleet.Halted):
		v.fail("revision %d: %s after %s", e.Kv.ModRevision, is.Text(), was.State)
	case is.State == fleet.Done && len(is.Waves) > 0 && v.harmful(ref):
		v.fail("revision %d: %s, although it does harm: %+v", e.Kv.ModRevision, is.Text(), is.Waves)
	}
}

func (v *verdict) harmful(ref fleet.Ref) bool {
	p := v.policies[ref]
	if p == nil {
		return false
	}
	global := p.Settings[settings.Scope{}]
	return harms(&global)
}

// waveOf is the state of the wave that brings a rollout's revision to a node.
func waveOf(r *fleet.Rollout, node string) fleet.WaveState {
	if r == nil {
		return fleet.WavePending
	}
	if r.State == fleet.Done {
		return fleet.WaveDone
	}
	for _, w := range r.Waves {
		if slices.Contains(w.Nodes, node) {
			return w.State
		}
	}
	return fleet.WavePending
}

// assignment checks an assignment against the rollout that gives it. An operator may have aborted
// that meanwhile: the controller writes once more before it knows.
func (v *verdict) assignment(node string, e *clientv3.Event) {
	var a store.Assignment
	if a.Take(e.Kv); a.Err != nil || len(a.Policies) > 1 {
		v.fail("revision %d: %s has %v: %w", e.Kv.ModRevision, node, a.Policies, a.Err)
		return
	}
	var is fleet.Ref
	if len(a.Policies) == 1 {
		is = a.Policies[0]
	}
	was := v.last[node]
	v.last[node] = is
	if is.Revision < was.Revision {
		if r := v.view.Rollouts[was]; r == nil || r.State != fleet.Halted && r.State != fleet.RolledBack && r.State != fleet.Aborted {
			v.fail("revision %d: %s is assigned %v after %s, which nothing takes back: %+v", e.Kv.ModRevision, node, is, was, r)
		}
		v.back[node] = was
	}
	if is.Revision == 0 {
		return
	}
	r := v.view.Rollouts[is]
	state, waits := waveOf(r, node), a.ConfirmWithin != 0
	switch {
	case is == v.back[node]:
		v.fail("revision %d: %s is assigned %s again, which was taken back", e.Kv.ModRevision, node, is)
	case r == nil || state == fleet.WavePending || r.State == fleet.Halted || r.State == fleet.RolledBack:
		v.fail("revision %d: %s is assigned %s, which nothing gives: %+v", e.Kv.ModRevision, node, is, r)
	case waits && state == fleet.WaveDone:
		v.fail("revision %d: %s is assigned %s, which is not confirmed: %+v", e.Kv.ModRevision, node, is, r)
	case !waits && (state == fleet.WaveApplying || state == fleet.WaveBaking):
		v.fail("revision %d: %s is assigned %s without a confirm window: %+v", e.Kv.ModRevision, node, is, r)
	}
}

// whole checks that what is in force on a node is all of one assignment.
func (v *verdict) whole(r record) {
	if r.Rev == 0 {
		if len(r.Layer) != 0 {
			v.fail("%s has %v in force without an assignment", r.Node, r.Layer)
		}
		return
	}
	value, ok := v.assigned[r.Node][r.Rev]
	if !ok {
		v.fail("%s has revision %d in force, which is no assignment of it", r.Node, r.Rev)
		return
	}
	var a store.Assignment
	a.Take(&mvccpb.KeyValue{Value: []byte(value)})
	if waits := a.ConfirmWithin != 0; waits != r.Waits {
		v.fail("%s has revision %d in force, and waits to be confirmed: %v, want %v", r.Node, r.Rev, r.Waits, waits)
	}
	var all []*fleet.Revision
	for _, ref := range a.Policies {
		if v.policies[ref] == nil {
			v.fail("%s has %s in force, which never was in etcd", r.Node, ref)
			return
		}
		all = append(all, v.policies[ref])
	}
	if want := written(fleet.Layer(all)); !maps.Equal(r.Layer, want) {
		v.fail("%s has at revision %d %v in force, want %v", r.Node, r.Rev, r.Layer, want)
	}
}
