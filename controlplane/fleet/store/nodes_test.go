package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
)

// TestTooManyNodes: a node is left out if there are too many, even if those have left. The reason says what to do.
func TestTooManyNodes(t *testing.T) {
	s := &Store{prefix: "/rdmad/"}
	v, all := fleet.NewView(), make(map[string]*fleet.Node)
	for i := range fleet.MaxNodes {
		name := fmt.Sprintf("n%d", i)
		v.Members[name], all[name] = &fleet.Member{}, &fleet.Node{}
	}
	kv := &mvccpb.KeyValue{Key: []byte("/rdmad/node/new"), Value: []byte("{}")}
	for _, err := range []error{s.Take(v, kv, false, time.Now()), s.take(all, nodes, kv, false)} {
		if err == nil || !strings.Contains(err.Error(), "/rdmad/node/new") || !strings.Contains(err.Error(), "rdmactl fleet remove") {
			t.Error(err)
		}
	}
}

// TestRoomForAnotherNode: a watch ends once there is room for a node that was left out, also if a report of that node
// comes at once. It would be DOWN, as its presence was left out.
func TestRoomForAnotherNode(t *testing.T) {
	all := make(map[string]*fleet.Node)
	for i := range fleet.MaxNodes {
		all[fmt.Sprintf("n%d", i)] = &fleet.Node{}
	}
	w := &nodeWatch{store: &Store{prefix: "/rdmad/"}, nodes: all, changed: make(map[string]struct{}), wake: make(chan struct{}, 1)}
	event := func(kind mvccpb.Event_EventType, key string) *clientv3.Event {
		return &clientv3.Event{Type: kind, Kv: &mvccpb.KeyValue{Key: []byte("/rdmad/" + key), Value: []byte("{}"), ModRevision: 1}}
	}
	w.take(&clientv3.WatchResponse{Events: []*clientv3.Event{event(mvccpb.PUT, "node/new")}})
	if c, err := w.step(); err != nil || len(c.Problems) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	w.take(&clientv3.WatchResponse{Events: []*clientv3.Event{event(mvccpb.DELETE, "status/n7"), event(mvccpb.PUT, "status/new")}})
	if c, err := w.step(); !errors.Is(err, errWatch) {
		t.Errorf("%+v, %v", c, err)
	}
}
