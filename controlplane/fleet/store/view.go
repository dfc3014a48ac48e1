package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
)

// view reads folders of keys at one revision of etcd, which it returns. The error joins those of
// policies and rollouts that can't be read.
func (s *Store) view(ctx context.Context, folders ...string) (v *fleet.View, revision int64, err error) {
	v = fleet.NewView()
	now := time.Now()
	var bad error
	for _, folder := range folders {
		revision, err = s.listAt(ctx, s.prefix+folder, revision, func(kv *mvccpb.KeyValue) {
			if err := s.Take(v, kv, false, now); s.Decides(string(kv.Key)) {
				bad = errors.Join(bad, err)
			}
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return v, revision, bad
}

// Prefix returns the prefix of all keys.
func (s *Store) Prefix() string { return s.prefix }

// Decides reports whether a key is of a policy or a rollout, which decide about assignments.
func (s *Store) Decides(key string) bool {
	return strings.HasPrefix(key, s.prefix+policies) || strings.HasPrefix(key, s.prefix+rollouts)
}

// Take records in a view a key, or that the key was removed. An error is a *ValueError; the
// view then has nothing of the key. A view has nothing of the history, elections and dry runs
// either, whose keys are only checked.
func (s *Store) Take(v *fleet.View, kv *mvccpb.KeyValue, gone bool, now time.Time) error {
	key := string(kv.Key)
	folder, rest, _ := strings.Cut(strings.TrimPrefix(key, s.prefix), "/")
	switch folder + "/" {
	case policies:
		return s.takePolicy(v, kv, rest, gone)
	case rollouts:
		return s.takeRollout(v, kv, rest, gone, now)
	case nodes, assignments, statuses:
		if _, err := name(kv, s.prefix+folder+"/"); err != nil {
			return err
		}
		m := v.Members[rest]
		if m == nil {
			if len(v.Members) >= fleet.MaxNodes {
				return &ValueError{key, ErrTooMany}
			}
			m = &fleet.Member{Node: fleet.Node{Name: rest}, Since: now}
			v.Members[rest] = m
		}
		err := s.takeMember(m, folder+"/", kv, gone, now)
		if !m.Known() {
			delete(v.Members, rest) // or nothing of it can be read
		}
		return err
	}
	if gone {
		return nil
	}
	return s.check(folder+"/", rest, kv)
}

func (s *Store) takePolicy(v *fleet.View, kv *mvccpb.KeyValue, rest string, gone bool) error {
	if ref, err := fleetproto.Ref(rest); err == nil {
		delete(v.Policies, ref)
	}
	if gone {
		return nil
	}
	r, err := s.DecodePolicy(kv)
	if err == nil {
		v.Policies[r.Ref()] = r
	}
	return err
}

func (s *Store) takeRollout(v *fleet.View, kv *mvccpb.KeyValue, rest string, gone bool, now time.Time) error {
	if ref, err := fleetproto.Ref(rest); err == nil {
		if r := v.Rollouts[ref]; r != nil && r.Changed >= kv.ModRevision {
			return nil // written by the caller itself
		}
		delete(v.Rollouts, ref)
	}
	if gone {
		return nil
	}
	r, err := s.decodeRollout(kv)
	if err == nil {
		r.NotAfter(now)
		v.Rollouts[r.Ref] = r
	}
	return err
}

func (s *Store) takeMember(m *fleet.Member, folder string, kv *mvccpb.KeyValue, gone bool, now time.Time) error {
	if folder == assignments && kv.ModRevision <= m.Assigned.At {
		return nil // written by the caller itself
	}
	err := s.put(&m.Node, folder, kv, gone)
	switch {
	case folder == nodes:
		m.Up, m.Since = m.Up && err == nil, now
	case folder == assignments && err != nil:
		m.Assigned = fleet.Assigned{} // written anew
	case folder == statuses && gone:
		m.Reports = [2]*fleet.Reported{}
	case folder == statuses && err == nil:
		m.Reports[0], m.Reports[1] = &fleet.Reported{Report: *m.Report, At: kv.ModRevision, Seen: now}, m.Reports[0]
	}
	return err
}

// Reports reports whether a key is that of a node's report.
func (s *Store) Reports(key string) bool { return strings.HasPrefix(key, s.prefix+statuses) }
