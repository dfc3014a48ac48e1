package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
)

func (s *Store) rolloutKey(r fleet.Ref) string { return s.prefix + rollouts + r.String() }

func (s *Store) decodeRollout(kv *mvccpb.KeyValue) (*fleet.Rollout, error) {
	r, err := decode(kv, strict.Unmarshal, fleetproto.Rollout)
	if err != nil {
		return nil, err
	}
	if s.rolloutKey(r.Ref) != string(kv.Key) {
		return nil, &ValueError{string(kv.Key), fmt.Errorf("the value is that of rollout %s", r.Ref)}
	}
	r.Changed = kv.ModRevision
	return r, nil
}

// Rollout reads a rollout.
func (s *Store) Rollout(ctx context.Context, ref fleet.Ref) (*fleet.Rollout, error) {
	return one(ctx, s, s.rolloutKey(ref), &MissingError{"rollout", ref}, s.decodeRollout)
}

// AllRollouts reads the rollouts of a policy, or of all for "". Callers who come at the same time share those of all.
func (s *Store) AllRollouts(ctx context.Context, policy string) ([]*fleet.Rollout, error) {
	if policy != "" {
		return s.readRollouts(ctx, policy+"@")
	}
	all, err := s.rollouts.get(ctx, func(ctx context.Context) ([]*fleet.Rollout, error) { return s.readRollouts(ctx, "") })
	return slices.Clone(all), err
}

func (s *Store) readRollouts(ctx context.Context, of string) ([]*fleet.Rollout, error) {
	all, _, err := values(ctx, s, s.prefix+rollouts+of, s.decodeRollout)
	return all, err
}

// ChangeRollout stores the result of change for a rollout. Its errors are those of change, a
// *MissingError, and ErrRace.
func (s *Store) ChangeRollout(ctx context.Context, ref fleet.Ref, change func(*fleet.Rollout) (*fleet.Rollout, error)) (*fleet.Rollout, error) {
	for range attempts {
		now, err := s.Rollout(ctx, ref)
		if err != nil {
			return nil, err
		}
		next, err := change(now)
		if err != nil {
			return nil, err
		}
		value, err := encode(fleetproto.RolloutMessage(next))
		if err != nil {
			return nil, err
		}
		key := s.rolloutKey(ref)
		revision, err := s.change(ctx, now.Text(), next.Text(),
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", now.Changed)}, []clientv3.Op{clientv3.OpPut(key, value)})
		if revision != 0 || err != nil {
			return next, err
		}
	}
	return nil, ErrRace
}

// StepRollout stores a rollout's next state, if the fence holds, and returns the revision of etcd
// at which it did. A change that operators see as one, such as a halt, is in the history. ErrRace
// means that an operator changed the rollout meanwhile.
func (s *Store) StepRollout(ctx context.Context, f Fence, now, next *fleet.Rollout) (revision int64, err error) {
	value, err := encode(fleetproto.RolloutMessage(next))
	if err != nil {
		return 0, err
	}
	key := s.rolloutKey(next.Ref)
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", next.Changed), f.holds()}
	put := []clientv3.Op{clientv3.OpPut(key, value)}
	if before, after := now.Text(), next.Text(); before != after {
		revision, err = s.change(ctx, before, after, conditions, put)
	} else {
		revision, err = s.commit(ctx, conditions, put)
	}
	if revision != 0 || err != nil {
		return revision, err
	}
	if now, err = s.Rollout(ctx, next.Ref); err == nil && now.Changed == next.Changed {
		return 0, ErrDeposed
	}
	return 0, ErrRace
}

// commit carries out ops if all conditions hold, and returns the revision of etcd at which it did,
// or 0 if one doesn't.
func (s *Store) commit(ctx context.Context, conditions []clientv3.Cmp, ops []clientv3.Op) (revision int64, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	res, err := s.client.Txn(ctx).If(conditions...).Then(ops...).Commit()
	if err != nil || !res.Succeeded {
		return 0, err
	}
	return res.Header.Revision, nil
}

// WatchRollout passes a rollout to changed, as it is now and after each change, until changed
// returns false.
func (s *Store) WatchRollout(ctx context.Context, ref fleet.Ref, changed func(*fleet.Rollout) (bool, error)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	at, err := s.now(ctx)
	if err != nil {
		return err
	}
	now, err := s.Rollout(ctx, ref)
	if err != nil {
		return err
	}
	if more, err := changed(now); !more || err != nil {
		return err
	}
	from := max(at.Revision, now.Changed) + 1 // etcd may no longer have the revision after the rollout's own
	for res := range s.client.Watch(ctx, s.rolloutKey(ref), clientv3.WithRev(from)) {
		if err := res.Err(); err != nil {
			return err
		}
		if len(res.Events) == 0 {
			continue
		}
		last := res.Events[len(res.Events)-1]
		if last.Type == mvccpb.DELETE {
			return &MissingError{"rollout", ref}
		}
		if now, err = s.decodeRollout(last.Kv); err != nil {
			return err
		}
		if more, err := changed(now); !more || err != nil {
			return err
		}
	}
	return cmp.Or(ctx.Err(), errWatch)
}
