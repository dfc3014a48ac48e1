package store

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
)

// errWatch means that a watch ended although nobody ended it.
var errWatch = errors.New("the watch has ended")

// WatchError returns why a watch has ended that gave a response, or nil if it has not.
func WatchError(res clientv3.WatchResponse) error {
	if err := res.Err(); err != nil {
		return err
	}
	if res.Header == nil { // of a closed channel
		return errWatch
	}
	return nil
}

// Position is how far a watch of nodes has come. The zero Position is before the list.
type Position struct {
	Cluster  uint64
	Revision int64 // of etcd
}

// NodeChanges is a step of a watch of nodes. The nodes are not to be changed.
type NodeChanges struct {
	Listed   bool // Nodes are all that there are
	Nodes    []*fleet.Node
	Gone     []string // nodes of which etcd no longer has a key
	Problems []error  // keys that can't be read
	At       Position // after the step
}

// WatchNodes passes the nodes to changed, then each change, until changed returns an error or
// etcd fails. From a position, it begins with the changes since then. If etcd no longer knows
// these, it begins with the nodes again. While changed is busy, the changes of a node are
// combined.
func (s *Store) WatchNodes(ctx context.Context, from Position, changed func(*NodeChanges) error) error {
	all, err := s.nodes.get(ctx, s.readNodes)
	if err != nil {
		return err
	}
	now := all.at
	w := &nodeWatch{store: s, nodes: maps.Clone(all.nodes), full: all.full, listed: now, at: now, changed: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	if from.Cluster == now.Cluster && 0 < from.Revision && from.Revision <= now.Revision {
		w.at = from
		if err := w.follow(ctx, from.Revision+1, changed); !errors.Is(err, rpctypes.ErrCompacted) || w.at != from {
			return err
		}
		w.err, w.at = nil, now
	}
	if err := changed(&NodeChanges{Listed: true, Nodes: sorted(all.nodes), Problems: all.problems, At: now}); err != nil {
		return err
	}
	return w.follow(ctx, now.Revision+1, changed)
}

// now is etcd's present position.
func (s *Store) now(ctx context.Context) (Position, error) {
	res, err := s.get(ctx, s.prefix, clientv3.WithCountOnly())
	if err != nil {
		return Position{}, err
	}
	return Position{res.Header.ClusterId, res.Header.Revision}, nil
}

// nodeWatch reads etcd's watch as fast as it comes: the client would keep in memory what is not
// read.
type nodeWatch struct {
	store  *Store
	listed Position
	wake   chan struct{}

	mu       sync.Mutex
	nodes    map[string]*fleet.Node
	full     bool                // nodes were left out
	changed  map[string]struct{} // names
	problems []error
	at       Position
	err      error // why the watch has ended
}

// follow gives changed what changes from a revision on.
func (w *nodeWatch) follow(ctx context.Context, from int64, changed func(*NodeChanges) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	watch := w.store.client.Watch(ctx, w.store.prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithProgressNotify())
	reading.Go(func() {
		for res := range watch {
			w.take(&res)
		}
		w.end(errWatch)
	})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
		}
		step, err := w.step()
		if err != nil {
			return err
		}
		if step == nil {
			continue
		}
		if err := changed(step); err != nil {
			return err
		}
	}
}

// take notes what a response of the watch says.
func (w *nodeWatch) take(res *clientv3.WatchResponse) {
	if err := res.Err(); err != nil {
		w.end(err)
		return
	}
	w.mu.Lock()
	for _, e := range res.Events {
		w.event(e)
		w.at.Revision = e.Kv.ModRevision // the header can be ahead of what was sent
	}
	if res.IsProgressNotify() {
		w.at.Revision = res.Header.Revision
	}
	w.mu.Unlock()
	w.poke()
}

// event notes a change. It also counts a change that the list already had.
func (w *nodeWatch) event(e *clientv3.Event) {
	for _, folder := range nodeFolders {
		node, ok := strings.CutPrefix(string(e.Kv.Key), w.store.prefix+folder)
		if !ok {
			continue
		}
		if e.Kv.ModRevision > w.listed.Revision {
			err := w.store.take(w.nodes, folder, e.Kv, e.Type == mvccpb.DELETE)
			w.full = w.full || errors.Is(err, ErrTooMany)
			if w.full && len(w.nodes) < fleet.MaxNodes && w.err == nil {
				w.err = errWatch // only the next list has all of a node that was left out
			}
			if err != nil && len(w.problems) < maxProblems {
				w.problems = append(w.problems, err)
			}
			if err != nil {
				return
			}
		}
		if w.nodes[node] != nil || fleet.NameProblem(node) == "" {
			w.changed[node] = struct{}{}
		}
	}
}

func (w *nodeWatch) end(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
	w.poke()
}

func (w *nodeWatch) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// step takes what changed since the last one, or nil.
func (w *nodeWatch) step() (*NodeChanges, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	if len(w.changed)+len(w.problems) == 0 {
		return nil, nil
	}
	c := &NodeChanges{Problems: w.problems, At: w.at}
	there := make(map[string]*fleet.Node)
	for name := range w.changed {
		if n := w.nodes[name]; n != nil {
			there[name] = n
		} else {
			c.Gone = append(c.Gone, name)
		}
	}
	c.Nodes = sorted(there)
	w.problems = nil
	clear(w.changed)
	return c, nil
}
