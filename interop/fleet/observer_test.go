package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// observer sees all changes of a fleet's keys, in the order of etcd. It watches the members
// themselves, and nothing is compacted that it has not seen.
type observer struct {
	store  *store.Store
	mu     sync.Mutex
	more   sync.Cond
	seen   int64
	events []*clientv3.Event
}

func newObserver(s *store.Store) *observer {
	o := &observer{store: s}
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
	stop := context.AfterFunc(ctx, o.more.Broadcast)
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.seen < revision && ctx.Err() == nil {
		o.more.Wait()
	}
	return ctx.Err()
}

// check compares the history with what etcd saw, and etcd's keys with what never happens to
// them.
func (o *observer) check(records []record) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := verdict{o: o, terms: make(map[string]int64), policies: make(map[fleet.Ref]*fleet.Revision), assigned: make(map[string]map[int64]string)}
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
		if r.Op == opApply && r.Outcome == done || r.Op == opStart && r.Rev != 0 {
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
		w, known := writes[e.Kv.ModRevision]
		if gone {
			v.fail("revision %d: %s is gone", e.Kv.ModRevision, key)
		} else if known && w.Term != v.leader() {
			v.fail("revision %d: %s was written in term %d, while %d is the controller's", e.Kv.ModRevision, key, w.Term, v.leader())
		}
	case strings.HasPrefix(key, s.Policies()):
		v.policy(e, gone)
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

// whole checks that what is in force on a node is all of one assignment.
func (v *verdict) whole(r record) {
	value, ok := v.assigned[r.Node][r.Rev]
	if !ok {
		v.fail("%s has revision %d in force, which is no assignment of it", r.Node, r.Rev)
		return
	}
	var a store.Assignment
	a.Take(&mvccpb.KeyValue{Value: []byte(value)})
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

// newest is the newest revision of the policy that the executions change.
func (o *observer) newest() (ref fleet.Ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Type != mvccpb.PUT || !strings.HasPrefix(string(e.Kv.Key), o.store.Policies()) {
			continue
		}
		if r, err := o.store.DecodePolicy(e.Kv); err == nil && r.Revision > ref.Revision {
			ref = r.Ref()
		}
	}
	return ref
}
