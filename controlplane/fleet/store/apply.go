package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// ErrRace means that another policy was applied at the same time.
var ErrRace = errors.New("another policy or rollout was changed at the same time: try again")

// Apply stores r's policy as its next revision, and begins its rollout, which it returns.
// Without a plan all nodes have the revision at once. The error is a *fleet.ConflictError for a
// policy that conflicts with another one, a *fleet.ActiveError for one that has to wait for
// another rollout, or a *settings.LimitError for one policy too many. With dry, Apply stores
// nothing.
func (s *Store) Apply(ctx context.Context, r fleet.Revision, plan *fleet.Plan, dry bool) (*fleet.Rollout, error) {
	v, read, err := s.view(ctx, policies, rollouts, nodes)
	if err != nil {
		return nil, err
	}
	newest, before := fleet.Newest(slices.Collect(maps.Values(v.Policies))), ""
	r.Revision = 1
	switch i := slices.IndexFunc(newest, func(one *fleet.Revision) bool { return one.Name == r.Name }); {
	case i < 0 && len(newest) >= fleet.MaxPolicies:
		return nil, &settings.LimitError{What: "policies", Limit: fleet.MaxPolicies}
	case i >= 0 && newest[i].Revision == math.MaxUint32:
		return nil, &settings.LimitError{What: "revisions of a policy", Limit: math.MaxUint32}
	case i >= 0:
		r.Revision, before = newest[i].Revision+1, newest[i].Text()
	}
	if err := errors.Join(r.Check(), fleet.Conflicts(&r.Policy, v.Live())); err != nil {
		return nil, err
	}
	if err := v.Busy(&r.Policy); err != nil {
		return nil, err
	}
	rollout := v.Start(&r, plan, time.Now().UTC().Truncate(time.Second))
	if err := rollout.Check(); err != nil || dry {
		return rollout, err
	}
	return rollout, s.begin(ctx, read, &r, rollout, before, s.excess(v, r.Name))
}

// KeptRevisions is how many revisions of a policy etcd keeps, and KeptRollouts how many of their
// rollouts. The revision in force stays, and its rollout.
const (
	KeptRevisions = 100
	KeptRollouts  = 20
)

// excess are the requests that remove what is too much once there is another revision of a policy.
func (s *Store) excess(v *fleet.View, policy string) (ops []clientv3.Op) {
	refs := slices.DeleteFunc(slices.Collect(maps.Keys(v.Policies)), func(ref fleet.Ref) bool { return ref.Policy != policy })
	slices.SortFunc(refs, func(a, b fleet.Ref) int { return cmp.Compare(a.Revision, b.Revision) })
	base := v.Base(policy)
	for i, ref := range refs {
		age := len(refs) - i // 1 of the newest
		if base != nil && base.Ref() == ref {
			continue
		}
		if age >= KeptRollouts && v.Rollouts[ref] != nil {
			ops = append(ops, clientv3.OpDelete(s.rolloutKey(ref)))
		}
		if age >= KeptRevisions {
			ops = append(ops, clientv3.OpDelete(s.policyKey(ref)))
		}
	}
	return ops[:min(len(ops), maxBatch)] // the next revision removes more
}

// begin stores a version of a policy and its rollout, if no policy was stored since a revision of
// etcd.
func (s *Store) begin(ctx context.Context, read int64, r *fleet.Revision, rollout *fleet.Rollout, before string, excess []clientv3.Op) error {
	policy, err := encode(fleetproto.RevisionMessage(r))
	if err != nil {
		return err
	}
	value, err := encode(fleetproto.RolloutMessage(rollout))
	if err != nil {
		return err
	}
	key := s.policyKey(r.Ref())
	revision, err := s.change(ctx, before, r.Text(),
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.ModRevision(s.Policies()), "<", read+1).WithPrefix()},
		append(excess, clientv3.OpPut(key, policy), clientv3.OpPut(s.rolloutKey(r.Ref()), value)))
	if err == nil && revision == 0 {
		err = ErrRace
	}
	return err
}

// Selected returns the names of the nodes that are up and that a selector selects.
func (s *Store) Selected(ctx context.Context, sel fleet.Selector) (names []string, err error) {
	_, err = s.List(ctx, s.Nodes(), func(kv *mvccpb.KeyValue) {
		if node, id, err := s.DecodeNode(kv); err == nil && sel.Matches(id.Labels) {
			names = append(names, node)
		}
	})
	return names, err
}

// Fence is the election that a controller won: it may write while its key is there.
type Fence struct {
	Key      string
	Revision int64 // at which Key was made
}

// ErrDeposed means that a controller's election has ended.
var ErrDeposed = errors.New("another rdmad is the controller now")

func (f Fence) holds() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(f.Key), "=", f.Revision)
}

// Bounds of one transaction: etcd takes 128 operations, and requests of 1.5 MiB. The assignment of a node with as
// many policies as there may be has some 100 KiB.
const (
	maxBatch = 64
	maxBytes = 1 << 20
)

// Assign writes, in one transaction and if the fence holds, the assignments of the first nodes of a list: as many as
// fit. It returns their number, and etcd's revision of the transaction.
func (s *Store) Assign(ctx context.Context, f Fence, nodes []string, all map[string]fleet.Assignment) (n int, revision int64, err error) {
	var puts []clientv3.Op
	bytes := 0
	for _, node := range nodes[:min(len(nodes), maxBatch)] {
		a := all[node]
		value, err := encode(fleetproto.AssignmentMessage(&a))
		if err != nil {
			return 0, 0, err
		}
		if bytes += len(value); bytes > maxBytes && n > 0 {
			break
		}
		puts = append(puts, clientv3.OpPut(s.AssignmentKey(node), value))
		n++
	}
	revision, err = s.commit(ctx, []clientv3.Cmp{f.holds()}, puts)
	if err == nil && revision == 0 {
		err = ErrDeposed
	}
	return n, revision, err
}
