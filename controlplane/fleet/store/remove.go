package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
)

// UpError means that a node can't be removed because it is up, and would come back.
type UpError struct{ Node string }

func (e *UpError) Error() string {
	return fmt.Sprintf("node %s is UP: take the section fleet out of its configuration and restart it first", e.Node)
}

// NoNodeError means that etcd has no key of a node.
type NoNodeError struct{ Node string }

func (e *NoNodeError) Error() string { return "the fleet has no node " + e.Node }

// RemoveNode removes the last report and the assignment of a node that is down. For other nodes
// the error is a *UpError or a *NoNodeError.
func (s *Store) RemoveNode(ctx context.Context, node string) error {
	if fleet.NameProblem(node) != "" {
		return &NoNodeError{node}
	}
	keys := []string{s.StatusKey(node), s.AssignmentKey(node)}
	before, err := s.removed(ctx, node, keys)
	if err != nil {
		return err
	}
	revision, err := s.change(ctx, before, "", []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.NodeKey(node)), "=", 0)},
		[]clientv3.Op{clientv3.OpDelete(keys[0]), clientv3.OpDelete(keys[1])})
	if err == nil && revision == 0 {
		err = &UpError{node}
	}
	return err
}

// removed describes a node for the history.
func (s *Store) removed(ctx context.Context, node string, keys []string) (string, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	res, err := s.client.Txn(ctx).Then(clientv3.OpGet(keys[0]), clientv3.OpGet(keys[1]), clientv3.OpGet(s.NodeKey(node), clientv3.WithCountOnly())).Commit()
	if err != nil {
		return "", err
	}
	status, assigned := res.Responses[0].GetResponseRange().GetKvs(), res.Responses[1].GetResponseRange().GetKvs()
	switch {
	case res.Responses[2].GetResponseRange().GetCount() > 0:
		return "", &UpError{node}
	case len(status)+len(assigned) == 0:
		return "", &NoNodeError{node}
	}
	text := "node " + node
	for _, kv := range status {
		if id, _, err := decodeStatus(kv); err == nil { // garbage is removed, too
			text += ": " + id.Labels.String()
		}
	}
	return text, nil
}
