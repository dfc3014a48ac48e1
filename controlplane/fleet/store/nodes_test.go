package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

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
