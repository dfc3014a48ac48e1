package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// policy gives settings at two scopes, which belong together.
const policy = "name: small\nsettings: {inline: {send_max: %d}, credits: {max: %d, min: %d}}\nscopes: {listener/nfs: {inline: {send_max: %[1]d}}}"

// harm is the value of credits.min in policies that bring errors to nodes.
const harm = 2

func harms(v *live.Values) bool { return v.Value(live.CreditsMin) == harm }

// next is the policy with values that it did not have before.
func (x *execution) next(least int) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.value++
	return fmt.Sprintf(policy, 2048+4*x.value, 16+x.value, least)
}

// earlier is the policy with values that it may have had before.
func (x *execution) earlier() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	value := x.changes.IntN(x.value + 1)
	return fmt.Sprintf(policy, 2048+4*value, 16+value, 1)
}

// change applies the policy anew, on all nodes at once. Without an answer, it may have been.
func (x *execution) change() error {
	_, err := x.apply(x.next(1), nil)
	return err
}

// apply applies the policy, as a rollout if there is a plan. The zero Ref means that it may not have.
func (x *execution) apply(text string, plan *fleet.Plan) (ref fleet.Ref, err error) {
	p, err := fleet.ReadPolicy("p.yaml", []byte(text))
	if err != nil {
		return fleet.Ref{}, err
	}
	r, err := x.admin.store.Apply(x.ctx, fleet.Revision{Policy: *p}, plan, false)
	if err != nil {
		return fleet.Ref{}, mayFail(err)
	}
	return r.Ref, nil
}

// mayFail leaves errors out that faults and rollouts bring.
func mayFail(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrRace) || errors.As(err, new(*fleet.ActiveError)) || errors.As(err, new(*fleet.StateError)) {
		return nil
	}
	return lenient(err)
}

// rollOut begins a rollout of a policy that is good, does harm, or was there before. It waits until
// the rollout ends, or an operator changes it on the way.
func (x *execution) rollOut(ctx context.Context) error {
	plan := &fleet.Plan{
		Steps: []fleet.Step{{Nodes: 1}}, Bake: time.Duration(x.changes.IntN(2000)) * time.Millisecond,
		ApplyWithin: time.Duration(3+x.changes.IntN(4)) * time.Second, Gates: fleet.Gates{MaxErrors: 1},
	}
	text := x.next(1)
	switch x.changes.IntN(6) {
	case 0:
		text = x.earlier()
	case 1, 2:
		text = x.next(harm)
	}
	operator, after := x.changes.IntN(5), time.Duration(x.changes.IntN(5000))*time.Millisecond
	ref, err := x.apply(text, plan)
	if err != nil || ref.Revision == 0 {
		return err
	}
	if operator < 2 {
		meanwhile, cancel := context.WithTimeout(ctx, after)
		defer cancel()
		x.ended(meanwhile, ref)
	}
	switch operator {
	case 0:
		err = x.alter(ref, (*fleet.Rollout).Abort)
	case 1:
		err = x.alter(ref, (*fleet.Rollout).Pause)
		if err == nil && pause(ctx, after) {
			err = x.alter(ref, (*fleet.Rollout).Resume)
		}
	}
	if err == nil {
		x.ended(ctx, ref)
	}
	return err
}

// ended waits until a rollout has ended, or was paused and is left so, or ctx ends.
func (x *execution) ended(ctx context.Context, ref fleet.Ref) {
	_ = x.observer.until(ctx, func() bool {
		r := x.observer.view.Rollouts[ref]
		return r != nil && (r.State.Ended() || r.State == fleet.Paused)
	})
}

// alter changes a rollout as an operator. Without an answer, it may have been.
func (x *execution) alter(ref fleet.Ref, how func(*fleet.Rollout, string, time.Time) (*fleet.Rollout, error)) error {
	_, err := x.admin.store.ChangeRollout(x.ctx, ref, func(r *fleet.Rollout) (*fleet.Rollout, error) { return how(r, "alice", time.Now()) })
	return mayFail(err)
}
