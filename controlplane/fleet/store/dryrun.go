package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// A dry run asks nodes through etcd, as only rdmads have credentials of it and none has those of
// another rdmad. The rdmad that asks writes the policy under dryrun/NUMBER; each node that it
// concerns writes its answer under answer/NUMBER/NODE. All of these keys have one lease, the
// number, and go with it.

// Times of a dry run.
const (
	AnswerTime = 5 * time.Second // that nodes have for an answer, unless the configuration gives another
	dryRunRest = 25              // seconds after that time when etcd removes what a dead rdmad asked
)

// DryRuns is the prefix of the dry runs that nodes answer.
func (s *Store) DryRuns() string { return s.prefix + dryRuns }

// DryRun asks the nodes that a version of a policy concerns for its effects on them. It returns
// their answers in the order of their names.
func (s *Store) DryRun(ctx context.Context, r *fleet.Revision) ([]*fleet.Effects, error) {
	nodes, _, err := s.AllNodes(ctx)
	if err != nil {
		return nil, err
	}
	var all []*fleet.Effects
	waiting, most := make(map[string]*fleet.Effects), share(ctx, cmp.Or(s.cfg.Answers, AnswerTime))
	for _, n := range nodes {
		if !r.Concerns(n.Labels, n.Assigned.Policies) {
			continue
		}
		e := &fleet.Effects{Node: n.Name, Reason: fmt.Sprintf("the node has not answered within %v", most.Round(time.Second/10))}
		all = append(all, e)
		if n.Up {
			waiting[n.Name] = e
		} else {
			e.Reason = "the node is DOWN"
		}
	}
	if len(waiting) == 0 {
		return all, nil
	}
	return all, s.ask(ctx, r, waiting, most)
}

// ask fills in the effects that the nodes of waiting answer in time.
func (s *Store) ask(ctx context.Context, r *fleet.Revision, waiting map[string]*fleet.Effects, most time.Duration) error {
	value, err := encode(fleetproto.RevisionMessage(r))
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	lease, err := s.client.Grant(asking, int64(most/time.Second)+dryRunRest)
	if err != nil {
		return err
	}
	defer s.Revoke(ctx, lease.ID)
	number := fmt.Sprintf("%x", lease.ID)
	put, err := s.client.Put(asking, s.DryRuns()+number, value, clientv3.WithLease(lease.ID))
	if err != nil {
		return err
	}
	prefix := s.prefix + answers + number + "/"
	changes := s.client.Watch(clientv3.WithRequireLeader(asking), prefix, clientv3.WithPrefix(), clientv3.WithRev(put.Header.Revision))
	for res := range changes { // until asking ends
		if err := res.Err(); err != nil && asking.Err() == nil {
			return err
		}
		for _, e := range res.Events {
			s.answered(e.Kv, prefix, waiting)
		}
		if len(waiting) == 0 {
			return nil
		}
	}
	return ctx.Err()
}

// answered takes an answer. One of a node that was not asked, or answered before, is nothing.
func (s *Store) answered(kv *mvccpb.KeyValue, prefix string, waiting map[string]*fleet.Effects) {
	node := strings.TrimPrefix(string(kv.Key), prefix)
	e := waiting[node]
	if e == nil || len(kv.Value) == 0 {
		return
	}
	m := &rdmadv1.NodeEffects{}
	if err := lenient(kv.Value, m); err != nil {
		e.Reason = (&ValueError{string(kv.Key), err}).Error()
	} else {
		*e = *fleetproto.Effects(m)
		e.Node = node
	}
	delete(waiting, node)
}

// Asked is a dry run as a node sees it.
type Asked struct {
	number string
	lease  clientv3.LeaseID
	Policy *fleet.Revision // nil if it can't be read
	Err    error           // why
}

// DecodeDryRun reads a dry run.
func (s *Store) DecodeDryRun(kv *mvccpb.KeyValue) *Asked {
	a := &Asked{number: strings.TrimPrefix(string(kv.Key), s.DryRuns()), lease: clientv3.LeaseID(kv.Lease)}
	m := &rdmadv1.FleetPolicy{}
	if a.Err = strict.Unmarshal(kv.Value, m); a.Err == nil {
		a.Policy, a.Err = fleetproto.Revision(m)
	}
	return a
}

// Answer stores a node's answer to a dry run, which may have ended.
func (s *Store) Answer(ctx context.Context, a *Asked, e *fleet.Effects) error {
	if a.lease == clientv3.NoLease {
		return errors.New("a dry run without a lease is not answered: the answer would stay for ever")
	}
	value, err := encode(fleetproto.EffectsMessage(e))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	_, err = s.client.Put(ctx, s.prefix+answers+a.number+"/"+e.Node, value, clientv3.WithLease(a.lease))
	return err
}
