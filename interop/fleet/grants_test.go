package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// secure runs three members with TLS and users.
func secure(t *testing.T) *etcdtest.Cluster {
	t.Helper()
	c := etcdtest.StartCluster(t, etcdtest.Options{Members: 3, TLS: true})
	if err := c.Authenticate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func addUser(t *testing.T, c *etcdtest.Cluster, name string, grants ...etcdtest.Grant) {
	t.Helper()
	if err := c.AddUser(t.Context(), name, grants...); err != nil {
		t.Fatal(err)
	}
}

// The grant of docs/fleet.md suffices for all that an rdmad does in a fleet, and permits nothing
// outside of the prefix.
func TestGrantSuffices(t *testing.T) {
	c := secure(t)
	addUser(t, c, "gateway-1", etcdtest.ReadWrite(prefix+"/")...)
	n := mustNode(t, "gateway-1", "role=gateway", "", of(t, c, "gateway-1"))
	stop := n.start(t)
	n.await(t, n.name, conditions.FleetJoined)
	n.await(t, "controller", conditions.FleetLeads)
	ref, err := n.apply(t.Context(), small(2048))
	if err != nil {
		t.Fatal(err)
	}
	awaitReports(t, n.store, []string{n.name}, has(ref))
	for _, op := range []clientv3.Op{clientv3.OpGet("/other"), clientv3.OpPut("/other", ""), clientv3.OpGet("/", clientv3.WithPrefix())} {
		if _, err := n.store.Client().Do(t.Context(), op); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("outside of the prefix: %v", err)
		}
	}
	stop()
	for _, key := range []string{"/rdmad/node/", "/rdmad/election/"} {
		if left := c.Do(t, clientv3.OpGet(key, clientv3.WithPrefix())).Get().Kvs; len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// Without the grant to a part of the prefix, or to write it, a condition of the node or of the
// controller says so.
func TestLessIsDenied(t *testing.T) {
	c := secure(t)
	folders := []string{"node/", "policy/", "assign/", "status/", "election/", "rollout/"}
	for _, missing := range folders {
		var rest []string
		for _, f := range folders {
			if f != missing {
				rest = append(rest, prefix+"/"+f)
			}
		}
		name := "without-" + missing[:len(missing)-1]
		addUser(t, c, name, etcdtest.ReadWrite(rest...)...)
		n := mustNode(t, name, "", "", of(t, c, name))
		stop := n.start(t)
		which := n.name
		if missing == "policy/" || missing == "election/" || missing == "rollout/" {
			which = "controller"
		}
		n.await(t, which, conditions.FleetDenied)
		stop()
	}
	reader := etcdtest.Grant{Prefix: prefix + "/", Kind: clientv3.PermissionType(clientv3.PermRead)}
	addUser(t, c, "reader", reader)
	n := mustNode(t, "reader", "", "", of(t, c, "reader"))
	n.start(t)
	n.await(t, n.name, conditions.FleetDenied)
	n.await(t, "controller", conditions.FleetDenied)
}

// A refusal of the election is over when it is permitted, also while another rdmad leads.
func TestElectionIsPermitted(t *testing.T) {
	c := secure(t)
	addUser(t, c, "leader", etcdtest.ReadWrite(prefix+"/")...)
	leader := mustNode(t, "leader", "", "", of(t, c, "leader"))
	leader.start(t)
	leader.await(t, "controller", conditions.FleetLeads)
	addUser(t, c, "other", etcdtest.ReadWrite(prefix+"/node/", prefix+"/assign/", prefix+"/status/")...)
	other := mustNode(t, "other", "", "", of(t, c, "other"))
	other.start(t)
	other.await(t, "controller", conditions.FleetDenied)
	if err := c.Grant(t.Context(), "other", etcdtest.ReadWrite(prefix+"/")...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := other.known.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		if other.known.List().Find(conditions.Fleet, "controller") == nil {
			return
		}
	}
	t.Fatal("still denied")
}

// A fleet goes on while one member of three is away, whichever it is, also with the addresses of
// two members alone; a node comes back when the majority does.
func TestMembersComeAndGo(t *testing.T) {
	c := secure(t)
	addUser(t, c, "gateway-1", etcdtest.ReadWrite(prefix+"/")...)
	config := of(t, c, "gateway-1")
	config.Endpoints = config.Endpoints[:2]
	n := mustNode(t, "gateway-1", "", "", config)
	n.start(t)
	n.await(t, n.name, conditions.FleetJoined)
	admin := mustNode(t, "admin", "", "", of(t, c, "root"))
	defer admin.store.Close()
	change := func(value int) {
		t.Helper()
		ref, err := admin.apply(t.Context(), small(value))
		for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); { // while a leader is elected
			ref, err = admin.apply(t.Context(), small(value))
		}
		if err != nil {
			t.Fatal(err)
		}
		awaitReports(t, admin.store, []string{n.name}, has(ref))
	}
	for i, m := range c.Members {
		m.Kill()
		change(2048 + 4*i)
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		change(4096 + 4*i)
	}
	c.Members[0].Kill()
	c.Members[1].Kill()
	n.await(t, n.name, conditions.FleetAway)
	for _, m := range c.Members[:2] {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	n.await(t, n.name, conditions.FleetJoined)
	change(8192)
}

// A node whose certificate has expired is not let in, says so, and joins as soon as the file
// has a new one.
func TestOwnCertificateExpires(t *testing.T) {
	c := secure(t)
	addUser(t, c, "gateway-1", etcdtest.ReadWrite(prefix+"/")...)
	config := of(t, c, "gateway-1")
	cert, key, err := c.CA.Sign("gateway-1", time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	config.TLS.Certificates, config.TLS.GetClientCertificate = nil, func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	n := mustNode(t, "gateway-1", "", "", config)
	n.start(t)
	t.Log(n.await(t, n.name, conditions.FleetUntrusted))
	if _, _, err := c.CA.Sign("gateway-1", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	n.await(t, n.name, conditions.FleetJoined)
}
