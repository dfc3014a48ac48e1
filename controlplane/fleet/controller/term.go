package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// term is the work of one elected controller.
type term struct {
	*Config
	fence store.Fence
	view  *fleet.View
	// stale says that what nodes are to have may have changed.
	stale bool
	// unreadable are the policies and rollouts that can't be read, by key. While there is one,
	// nothing is written: it may be the newest of its policy.
	unreadable map[string]error
	// leftOut are other keys that can't be read, at most maxLeftOut.
	leftOut map[string]error
	full    bool                         // nodes are left out, as there are too many
	notable map[fleet.Ref]*fleet.Rollout // that have a condition
}

const maxLeftOut = 256

// pause is the time between two looks at the rollouts: reports of many nodes count together.
const pause = 100 * time.Millisecond

// round lists everything once, then follows all changes. It returns nil when everything has to be
// listed again.
func (t *term) round(ctx context.Context) error {
	from, err := t.list(ctx)
	if err != nil {
		return err
	}
	following, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	changes := t.Store.Client().Watch(following, t.Store.Prefix(), clientv3.WithPrefix(), clientv3.WithRev(from+1))
	look := time.NewTimer(0)
	defer look.Stop()
	waiting := false // for look, no longer than pause
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case res := <-changes:
			if res.CompactRevision != 0 {
				return nil
			}
			if err := t.follow(res); errors.Is(err, errRoom) {
				return nil
			} else if err != nil {
				return err
			}
			if !waiting {
				waiting = true
				look.Reset(pause)
			}
		case <-look.C:
			wake, err := t.settle(ctx)
			if errors.Is(err, store.ErrRace) {
				return nil
			}
			if err != nil {
				return err
			}
			if waiting = false; !wake.IsZero() {
				look.Reset(max(time.Until(wake), pause))
			}
		}
	}
}

// list reads everything.
func (t *term) list(ctx context.Context) (revision int64, err error) {
	t.view, t.unreadable, t.leftOut, t.stale = fleet.NewView(), make(map[string]error), make(map[string]error), true
	t.full = false
	return t.Store.List(ctx, t.Store.Prefix(), func(kv *mvccpb.KeyValue) { t.take(kv, false) })
}

// take notes what a key says, or that it can't be read.
func (t *term) take(kv *mvccpb.KeyValue, gone bool) {
	key := string(kv.Key)
	before := t.leftOut[key]
	delete(t.unreadable, key)
	delete(t.leftOut, key)
	err := t.Store.Take(t.view, kv, gone, time.Now())
	t.full = t.full || errors.Is(err, store.ErrTooMany)
	switch {
	case err == nil || gone:
	case t.Store.Decides(key):
		t.unreadable[key] = err
	case len(t.leftOut) < maxLeftOut:
		if t.leftOut[key] = err; before == nil { // not again for each report of a node
			t.Logger.Warn("fleet: a key is left out", "error", err)
		}
	}
}

// errRoom means that there is room for a node that was left out. Only a list has all of it.
var errRoom = errors.New("there is room for another node")

// follow takes what the watch says.
func (t *term) follow(res clientv3.WatchResponse) error {
	if err := store.WatchError(res); err != nil {
		return err
	}
	for _, e := range res.Events {
		t.take(e.Kv, e.Type == mvccpb.DELETE)
		if t.full && len(t.view.Members) < fleet.MaxNodes {
			return errRoom
		}
		if !t.Store.Reports(string(e.Kv.Key)) {
			t.stale = true
		}
	}
	return nil
}

// settle writes until everything is as it is to be. wake is when to look again.
func (t *term) settle(ctx context.Context) (wake time.Time, err error) {
	t.found()
	for len(t.unreadable) == 0 {
		if err := t.assign(ctx); err != nil {
			return wake, err
		}
		next, at := t.view.Step(time.Now())
		if next == nil {
			return at, nil
		}
		if err := t.step(ctx, next); err != nil {
			return wake, err
		}
		t.found()
	}
	return time.Time{}, nil
}

// assign writes the assignments that are not as they are to be.
func (t *term) assign(ctx context.Context) error {
	if !t.stale {
		return nil
	}
	changes := t.view.Changes()
	for nodes := slices.Sorted(maps.Keys(changes)); len(nodes) > 0; {
		n, revision, err := t.Store.Assign(ctx, t.fence, nodes, changes)
		if err := t.written(err); err != nil {
			return err
		}
		for _, node := range nodes[:n] {
			a := changes[node]
			t.view.Members[node].Assigned = fleet.Assigned{Assignment: a, At: revision}
			t.Logger.Info("fleet: assigned", "node", node, "policies", a.Policies, "confirm_within", a.ConfirmWithin)
		}
		nodes = nodes[n:]
	}
	t.stale = false
	return nil
}

// step writes the next state of a rollout.
func (t *term) step(ctx context.Context, next *fleet.Rollout) (err error) {
	next.Changed, err = t.Store.StepRollout(ctx, t.fence, t.view.Rollouts[next.Ref], next)
	if err := t.written(err); err != nil {
		return err
	}
	t.view.Rollouts[next.Ref], t.stale = next, true
	t.Logger.Info("fleet: rollout", "rollout", next.Ref, "state", next.State, "reason", next.Reason, "waves", next.Progress())
	return nil
}

func (t *term) written(err error) error {
	if err == nil && t.wrote != nil {
		err = t.wrote()
	}
	return err
}

// found makes the state of the fleet the controller's conditions: one of the controller, one of
// the keys that it leaves out, and one of each rollout that is active or was halted.
func (t *term) found() {
	f := conditions.Finding{Name: name, Reason: conditions.FleetLeads, Message: t.Node}
	if len(t.unreadable) > 0 {
		f.Reason, f.Message = conditions.FleetUnreadable, first(t.unreadable)
	}
	t.Conditions.Set(f)
	if len(t.leftOut) > 0 {
		t.Conditions.Set(conditions.Finding{Name: keys, Reason: conditions.FleetLeftOut, Message: first(t.leftOut)})
	} else {
		t.Conditions.Remove(conditions.Fleet, keys)
	}
	before := t.notable
	t.notable = t.view.Notable()
	for ref := range before {
		if t.notable[ref] == nil {
			t.Conditions.Remove(conditions.Rollout, ref.String())
		}
	}
	for ref, r := range t.notable {
		t.Conditions.Set(conditions.Finding{Name: ref.String(), Reason: rolloutReasons[r.State], Message: cmp.Or(r.Reason, r.Progress())})
	}
}

// first is the error of the first key, and the number of the others.
func first(all map[string]error) string {
	text := all[slices.Min(slices.Collect(maps.Keys(all)))].Error()
	if len(all) > 1 {
		text += fmt.Sprintf("; and %d more keys", len(all)-1)
	}
	return text
}

// rolloutReasons are those of rollouts that have a condition.
var rolloutReasons = map[fleet.RolloutState]*conditions.Reason{
	fleet.Running:    conditions.RolloutRunning,
	fleet.Paused:     conditions.RolloutPaused,
	fleet.Halted:     conditions.RolloutHalted,
	fleet.RolledBack: conditions.RolloutRolledBack,
}

// forget removes the conditions of rollouts and keys.
func (t *term) forget() {
	t.Conditions.Remove(conditions.Fleet, keys)
	for ref := range t.notable {
		t.Conditions.Remove(conditions.Rollout, ref.String())
	}
}
