package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// maxProblems bounds the keys that AllNodes reports.
const maxProblems = 16

// ErrTooMany means that a node is left out. Nodes that have left still count, because they have a report, until an
// operator removes them.
var ErrTooMany = fmt.Errorf("no more than %d nodes, with those that are DOWN: rdmactl fleet remove makes room", fleet.MaxNodes)

// nodeFolders are those of nodes. Of a node that is down, its status has labels and version.
var nodeFolders = []string{nodes, assignments, statuses}

// AllNodes reads all nodes that etcd has a key of, in the order of names. problems names keys
// whose values can't be read. Callers that come at the same time share one read.
func (s *Store) AllNodes(ctx context.Context) (list []*fleet.Node, problems []error, err error) {
	all, err := s.nodes.get(ctx, s.readNodes)
	if err != nil {
		return nil, nil, err
	}
	return sorted(all.nodes), all.problems, nil
}

// nodeList is all nodes at a position.
type nodeList struct {
	at       Position
	nodes    map[string]*fleet.Node
	full     bool // nodes are left out
	problems []error
}

func (s *Store) readNodes(ctx context.Context) (*nodeList, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	all := &nodeList{at: now, nodes: make(map[string]*fleet.Node)}
	for _, folder := range nodeFolders {
		_, err := s.listAt(ctx, s.prefix+folder, now.Revision, func(kv *mvccpb.KeyValue) {
			err := s.take(all.nodes, folder, kv, false)
			all.full = all.full || errors.Is(err, ErrTooMany)
			if err != nil && len(all.problems) < maxProblems {
				all.problems = append(all.problems, err)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func sorted(all map[string]*fleet.Node) []*fleet.Node {
	return slices.SortedFunc(maps.Values(all), func(a, b *fleet.Node) int { return strings.Compare(a.Name, b.Name) })
}

// take notes a key of a node, or that it is gone. The nodes in all are not changed but replaced.
// After an error, all is as before.
func (s *Store) take(all map[string]*fleet.Node, folder string, kv *mvccpb.KeyValue, gone bool) error {
	node, err := name(kv, s.prefix+folder)
	if err != nil {
		return err
	}
	old := all[node]
	if old == nil && len(all) >= fleet.MaxNodes {
		return &ValueError{string(kv.Key), ErrTooMany}
	}
	n := &fleet.Node{Name: node}
	if old != nil {
		*n = *old
	}
	if err := s.put(n, folder, kv, gone); err != nil {
		return err
	}
	if n.Known() {
		all[node] = n
	} else {
		delete(all, node)
	}
	return nil
}

// put notes in a node what a key in a folder says, or that it is gone. After an error, the node is as before.
func (s *Store) put(n *fleet.Node, folder string, kv *mvccpb.KeyValue, gone bool) error {
	switch {
	case folder == nodes && gone:
		n.Up = false
	case folder == nodes:
		_, id, err := s.DecodeNode(kv)
		if err != nil {
			return err
		}
		n.Up, n.Identity = true, *id
	case folder == assignments && gone:
		n.Assigned = fleet.Assigned{}
	case folder == assignments:
		var a Assignment
		if a.Take(kv); a.Err != nil {
			return a.Err
		}
		n.Assigned = fleet.Assigned{Assignment: a.Assignment, At: a.Revision}
	case folder == statuses && gone:
		n.Report = nil
	case folder == statuses:
		id, report, err := decodeStatus(kv)
		if err != nil {
			return err
		}
		if !n.Up {
			n.Identity = *id
		}
		n.Report = report
	}
	return nil
}

func decodeStatus(kv *mvccpb.KeyValue) (id *fleet.Identity, report *fleet.Report, err error) {
	report, err = decode(kv, lenient, func(m *rdmadv1.FleetStatus) (r *fleet.Report, err error) {
		id, r, err = fleetproto.Status(m)
		return r, err
	})
	return id, report, err
}

// Presence is the presence of a node that has joined.
type Presence struct {
	store    *Store
	node     string
	Lease    clientv3.LeaseID
	revision int64 // at which its key was made
}

// TakenError means that another rdmad has the node's name.
type TakenError struct {
	Node  string
	Other fleet.Identity
}

func (e *TakenError) Error() string {
	text := "another rdmad has the name " + e.Node
	if e.Other.Control != "" {
		text += ", with control address " + e.Other.Control
	}
	if !e.Other.Since.IsZero() {
		text += ", since " + e.Other.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return text
}

// LostError means that a node's presence has ended, for example because etcd did not hear from
// the node in time.
type LostError struct{ Node string }

func (e *LostError) Error() string { return "the lease of node " + e.Node + " has ended" }

// Join makes a node's presence, with a lease of ttl seconds that the caller keeps alive. The
// error is a *TakenError if another rdmad has the name, or a *ValueError if the key can't be
// read.
func (s *Store) Join(ctx context.Context, node string, id *fleet.Identity, ttl int64) (*Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	value, err := encode(fleetproto.PresenceMessage(id))
	if err != nil {
		return nil, err
	}
	lease, err := s.client.Grant(ctx, ttl)
	if err != nil {
		return nil, err
	}
	key := s.NodeKey(node)
	res, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(lease.ID))).
		Else(clientv3.OpGet(key)).Commit()
	p := &Presence{store: s, node: node, Lease: lease.ID}
	if err != nil {
		p.Leave(ctx)
		return nil, err
	}
	if !res.Succeeded {
		p.Leave(ctx)
		return nil, s.taken(node, res.Responses[0].GetResponseRange().GetKvs())
	}
	p.revision = res.Header.Revision
	return p, nil
}

func (s *Store) taken(node string, kvs []*mvccpb.KeyValue) error {
	e := &TakenError{Node: node}
	for _, kv := range kvs {
		_, id, err := s.DecodeNode(kv)
		if err != nil {
			return err // of no rdmad
		}
		e.Other = *id
	}
	return e
}

// Leave ends the presence.
func (p *Presence) Leave(ctx context.Context) { p.store.Revoke(ctx, p.Lease) }

// Revoke ends a lease at once, even if ctx has ended. Without an answer of etcd the lease ends by itself.
func (s *Store) Revoke(ctx context.Context, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout/5)
	defer cancel()
	_, _ = s.client.Revoke(ctx, lease)
}

// Report stores the node's report. The error is a *LostError if its presence has ended.
func (p *Presence) Report(ctx context.Context, id *fleet.Identity, r *fleet.Report) error {
	value, err := encode(fleetproto.StatusMessage(id, r))
	if err != nil {
		return err
	}
	revision, err := p.store.commit(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.store.NodeKey(p.node)), "=", p.revision)},
		[]clientv3.Op{clientv3.OpPut(p.store.StatusKey(p.node), value)})
	if err == nil && revision == 0 {
		err = &LostError{p.node}
	}
	return err
}
