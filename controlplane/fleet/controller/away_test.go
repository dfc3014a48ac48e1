package controller

import (
	"testing"

	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// A controller and its candidate end without etcd, once their stores are closed.
func TestEndsWithoutEtcd(t *testing.T) {
	e := etcdtest.Start(t)
	first := run(t, e, "a")
	first.await(t, conditions.FleetLeads)
	second := run(t, e, "b")
	e.Kill(t)
	for _, c := range []*one{first, second} {
		if err := c.Store.Close(); err != nil {
			t.Error(err)
		}
		c.stop()
	}
}
