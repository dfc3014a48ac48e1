package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var (
	errUnknown = errors.New("the fleet has no such keys")
	errNoLease = errors.New("the key's name is not that of its lease: it would stay for ever")
)

// check returns a *ValueError for a key that is not of the history, an election or a dry run, or
// whose value can't be read.
func (s *Store) check(folder, rest string, kv *mvccpb.KeyValue) error {
	err := errUnknown
	switch folder {
	case changes:
		if s.number(string(kv.Key)) != 0 {
			err = lenient(kv.Value, &rdmadv1.AuditEntry{})
		}
	case dryRuns:
		err = leased(rest, kv, &rdmadv1.FleetPolicy{})
	case answers:
		number, node, _ := strings.Cut(rest, "/")
		if fleet.NameProblem(node) == "" {
			err = leased(number, kv, &rdmadv1.NodeEffects{})
		}
	default:
		if candidate, ok := strings.CutPrefix(folder+rest, election+"/"); ok {
			err = leased(candidate, kv, nil)
		}
	}
	if err != nil {
		return &ValueError{string(kv.Key), err}
	}
	return nil
}

// leased returns what is wrong with a key that is named by its lease, and has a message unless that
// is nil.
func leased(name string, kv *mvccpb.KeyValue, m proto.Message) error {
	if kv.Lease == 0 || name != fmt.Sprintf("%x", kv.Lease) {
		return errNoLease
	}
	if m == nil {
		return nil
	}
	return lenient(kv.Value, m)
}

// Blocked returns a *ValueError if the oldest key of the election is not a candidate's. No
// candidate can be elected before the key is removed.
func (s *Store) Blocked(ctx context.Context) error {
	res, err := s.get(ctx, s.ElectionKey()+"/", append(clientv3.WithFirstCreate(), clientv3.WithSerializable())...)
	if err != nil {
		return err
	}
	for _, kv := range res.Kvs {
		if err := leased(strings.TrimPrefix(string(kv.Key), s.ElectionKey()+"/"), kv, nil); err != nil {
			return &ValueError{string(kv.Key), fmt.Errorf("no rdmad can be elected: %w", err)}
		}
	}
	return nil
}
