// Package etcdtest runs etcd for tests and demonstrations: processes of the version in etcd.mod,
// a cluster of one member or more, with or without TLS and users.
package etcdtest

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd is a cluster of one member without TLS, for the time of a test.
type Etcd struct {
	*Cluster
	Endpoint string
}

// Start runs etcd with further flags until the test ends.
func Start(t testing.TB, flags ...string) *Etcd {
	t.Helper()
	c := StartCluster(t, Options{Members: 1, Flags: flags})
	return &Etcd{c, c.Endpoints()[0]}
}

// StartCluster runs a cluster until the test ends.
func StartCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Launch(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, m := range c.Members {
				t.Logf("the last lines of %s:\n%s", m.Name, m.Output())
			}
		}
	})
	return c
}

// Run starts the member, again after Kill.
func (e *Etcd) Run(t testing.TB) {
	t.Helper()
	if err := e.Members[0].Start(); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the member at once. Its data stay.
func (e *Etcd) Kill(testing.TB) { e.Members[0].Kill() }

// Do fails the test for an error of a request.
func (c *Cluster) Do(t testing.TB, op clientv3.Op) clientv3.OpResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := c.client.Do(ctx, op)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Get is the value of a key; "" without one.
func (c *Cluster) Get(t testing.TB, key string) string {
	t.Helper()
	res := c.Do(t, clientv3.OpGet(key)).Get()
	if len(res.Kvs) == 0 {
		return ""
	}
	return string(res.Kvs[0].Value)
}

// Put writes a key.
func (c *Cluster) Put(t testing.TB, key, value string) {
	t.Helper()
	c.Do(t, clientv3.OpPut(key, value))
}
