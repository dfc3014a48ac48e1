package store

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// KeptChanges is how many changes etcd keeps in the fleet's history.
const KeptChanges = 1000

// attempts bounds how often a change begins anew when another one came first.
const attempts = 5

// maxNumber bounds the numbers of changes. Keys with larger ones are garbage, and not read.
const maxNumber = 1 << 53

// change carries out ops, and adds the change to the history, if all conditions hold. It returns the
// revision of etcd at which it did, or 0 if one doesn't. The request of ctx says who changes the
// fleet; without one it is the controller.
func (s *Store) change(ctx context.Context, before, after string, conditions []clientv3.Cmp, ops []clientv3.Op) (revision int64, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	for range attempts {
		e := s.entry(ctx, before, after)
		if e.Number, err = s.lastChange(ctx); err != nil {
			return 0, err
		}
		e.Number++
		if e.Number == maxNumber {
			return s.commit(ctx, conditions, ops) // garbage has the last number; changes go on without history
		}
		value, err := encode(fleetproto.EntryMessage(e))
		if err != nil {
			return 0, err
		}
		key := s.changeKey(e.Number)
		res, err := s.client.Txn(ctx).
			If(append(conditions[:len(conditions):len(conditions)], clientv3.Compare(clientv3.CreateRevision(key), "=", 0))...).
			Then(append(ops[:len(ops):len(ops)], clientv3.OpPut(key, value), s.forget(e.Number))...).
			Else(clientv3.OpGet(key, clientv3.WithCountOnly())).Commit()
		if err != nil {
			return 0, err
		}
		if res.Succeeded {
			audit.Note(ctx, before, after, 0) // for the local log
			return res.Header.Revision, nil
		}
		if res.Responses[0].GetResponseRange().GetCount() == 0 {
			return 0, nil
		}
	}
	return 0, ErrRace
}

// entry is a change by the client of ctx, or by the controller.
func (s *Store) entry(ctx context.Context, before, after string) *fleet.Entry {
	e := &fleet.Entry{Time: time.Now().UTC().Truncate(time.Second), Node: s.cfg.Node, Before: audit.Bounded(before), After: audit.Bounded(after)}
	id := auth.Peer(ctx)
	method, _ := grpc.Method(ctx)
	if id.Role == auth.None { // not a client's
		id.Name, method = auth.Daemon, "controller"
	}
	e.Actor, e.Role, e.Origin, e.Action = id.Name, id.Role.String(), id.Origin, strings.TrimPrefix(method, "/")
	return e
}

func (s *Store) changeKey(number uint64) string {
	return fmt.Sprintf("%s%s%020d", s.prefix, changes, number)
}

// number is that of a change's key; 0 if the key is another one.
func (s *Store) number(key string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(key, s.prefix+changes), 10, 64)
	if err != nil || s.changeKey(n) != key {
		return 0
	}
	return n
}

// lastChange is the number of the newest change; 0 without one.
func (s *Store) lastChange(ctx context.Context) (last uint64, err error) {
	res, err := s.client.Get(ctx, s.changeKey(0), clientv3.WithRange(s.changeKey(maxNumber)), clientv3.WithKeysOnly())
	if err != nil {
		return 0, err
	}
	for _, kv := range res.Kvs {
		last = max(last, s.number(string(kv.Key)))
	}
	return last, nil
}

// forget removes the changes that are too old once there is change number.
func (s *Store) forget(number uint64) clientv3.Op {
	return clientv3.OpDelete(s.changeKey(0), clientv3.WithRange(s.changeKey(number-min(number, KeptChanges)+1)))
}

// History returns up to limit changes, the newest first: those older than change before, or from
// the newest on when before is 0. more is whether there are older ones. Callers who come at the
// same time share a read of all: etcd reads all of them also for a few.
func (s *Store) History(ctx context.Context, before uint64, limit int) (list []*fleet.Entry, more bool, err error) {
	all, err := s.changes.get(ctx, s.readChanges)
	if err != nil {
		return nil, false, err
	}
	all = all[sort.Search(len(all), func(i int) bool { return before == 0 || all[i].Number < before }):]
	return all[:min(limit, len(all))], len(all) > limit, nil
}

// readChanges reads the changes that etcd keeps, the newest first.
func (s *Store) readChanges(ctx context.Context) (list []*fleet.Entry, err error) {
	end := s.changeKey(maxNumber)
	for more := true; more && len(list) < KeptChanges; {
		res, err := s.get(ctx, s.changeKey(0), clientv3.WithRange(end),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(int64(KeptChanges-len(list))))
		if err != nil {
			return nil, err
		}
		for _, kv := range res.Kvs {
			if end = string(kv.Key); s.number(end) != 0 { // others are no changes
				list = append(list, s.decodeEntry(kv))
			}
		}
		more = res.More
	}
	return list, nil
}

func (s *Store) decodeEntry(kv *mvccpb.KeyValue) *fleet.Entry {
	e, err := decode(kv, lenient, func(m *rdmadv1.AuditEntry) (*fleet.Entry, error) { return fleetproto.Entry(m), nil })
	if err != nil {
		e = &fleet.Entry{Err: err}
	}
	e.Number = s.number(string(kv.Key))
	return e
}
