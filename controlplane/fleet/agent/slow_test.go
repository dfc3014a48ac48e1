package agent

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// An etcd that takes long for each answer is a condition. The node stays in the fleet, and gets
// what it is assigned.
func TestSlowEtcd(t *testing.T) {
	e := etcdtest.Start(t)
	address, late := relay(t, strings.TrimPrefix(e.Endpoint, "http://"))
	n := run(t, store.Config{Endpoints: []string{"http://" + address}}, func(n *node) { n.Every, n.TTL = 2*time.Second, time.Minute })
	n.await(t, conditions.FleetJoined)
	late.Store(int64(slowAfter))
	n.await(t, conditions.FleetSlow)
	assign(t, e, "global", 1, 2048)
	awaitReport(t, n.Store, "n1", applied(1))
	n.check(t, 2048)
	late.Store(0)
	n.await(t, conditions.FleetJoined)
}

// relay passes connections on to a server, what clients send after a delay, until the test ends.
func relay(t *testing.T, server string) (address string, late *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late = new(atomic.Int64)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				c.Close()
				continue
			}
			running.Go(func() {
				_, _ = io.Copy(c, up) // to the end of either
				c.Close()
			})
			running.Go(func() {
				_, _ = io.Copy(&lateWriter{up, late}, c)
				up.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait() // the node has gone: so have its connections
	})
	return l.Addr().String(), late
}

type lateWriter struct {
	net.Conn
	late *atomic.Int64
}

func (w *lateWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(w.late.Load()))
	return w.Conn.Write(b)
}
