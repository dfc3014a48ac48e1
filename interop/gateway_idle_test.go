package interop

import (
	"fmt"
	"testing"
	"time"
)

// idleTime is several leases of ganesha.
const idleTime = 90 * time.Second

// idleClient is a mount with an open, locked file on which nothing is done.
type idleClient struct {
	*mount
	file  string
	lock  held
	since time.Time
}

// setUniqueID makes mounts from now on those of another client: the parameter is
// part of what a client calls itself (nfs4_init_uniquifier_client_string).
func (gw *gateway) setUniqueID(t testing.TB, id string) {
	t.Helper()
	gw.g.MustRun(t, mountTime, "echo '"+id+"' >/sys/module/nfs/parameters/nfs4_unique_id")
}

// leaveIdle mounts each version on a listener of its own, as clients of their
// own: what is done elsewhere renews no lease of theirs.
func (gw *gateway) leaveIdle(t *testing.T) []*idleClient {
	t.Helper()
	gw.setUniqueID(t, "idle")
	defer gw.setUniqueID(t, "")
	var all []*idleClient
	for _, version := range versions {
		e := gw.e.at(version)
		if gw.r != nil {
			e.rdma = portOf(gw.r.process.Address("listener idle"))
		}
		m := newMountAt(t, gw.g, e, gw.via, "/mnt/idle-"+version)
		c := &idleClient{mount: m, file: "idle-" + version}
		m.client(t, "echo before >"+c.file)
		c.lock = m.startLock(t, c.file, 0, 10).wait(t)
		c.since = time.Now()
		all = append(all, c)
	}
	return all
}

// endIdle finds, after some leases, that nothing was lost: the lock is still
// good, by the server's word to others too, and the file can be written.
func (gw *gateway) endIdle(t *testing.T, all []*idleClient) {
	other := gw.mount(t, "4.2", "/mnt/other")
	for _, c := range all {
		if rest := idleTime - time.Since(c.since); rest > 0 {
			gw.g.MustRun(t, 2*idleTime, fmt.Sprintf("sleep %d", int(rest.Seconds())+1))
		}
		if other.tryLock(t, c.file, 0, 1) {
			t.Errorf("%s: the lock of a client that was idle for %v went to another one", c.version(), time.Since(c.since))
		}
		ops := c.ops(t)
		t.Logf("%s: idle for %v: RENEW %+v, SEQUENCE %+v", c.version(), time.Since(c.since).Round(time.Second), ops["RENEW"], ops["SEQUENCE"])
		c.client(t, "echo after >>"+c.file+"; sync "+c.file)
		same(t, "the file", c.server.shell(t, "cat "+c.file), "before\nafter\n")
		c.lock.release(t)
		if !other.tryLock(t, c.file, 0, 1) {
			t.Errorf("%s: a lock that was given back is still there", c.version())
		}
	}
	gw.checkIdle(t)
	for _, c := range all { // or ganesha would wait for them, too, after each of its crashes
		c.detach(t)
	}
}

// checkIdle checks that the idle clients' connections have no errors.
func (gw *gateway) checkIdle(t *testing.T) {
	t.Helper()
	if gw.r == nil {
		return
	}
	for _, c := range gw.r.connections(t) {
		if c.Listener == "idle" && c.Errors != 0 {
			t.Errorf("a client that was idle: %+v", c)
		}
	}
}
