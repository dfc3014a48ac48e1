package rpctcp

import (
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/lease"
)

// Leader and followers, as on RDMA (docs/adr/0014). Giving a call to a worker wakes a
// thread. That is most of the cost of a short call. So the goroutine that reads a
// connection, its leader, serves a call itself when that call is alone and recent calls
// were short. A leader that takes longer loses the lead: the server's watch starts another
// goroutine that continues to read. So a service may wait for anything, and so may the
// sending of its reply.

// large is the size of a call with its reply, in bytes, beyond which another call should
// not wait for it. Even if that one was the answer to the reply, a hand-over costs little
// beside it.
const large = 64 << 10

// lead is a connection's leader state. Only the leader uses it, except the lease.
type lead struct {
	lease.Lead
	// unread reports whether the connection has bytes that were not read.
	unread func() bool
}

// mayServe reports whether the leader serves a call that it has read itself.
func (c *serverConn) mayServe() bool {
	if c.lead.Rest > 0 {
		c.lead.Rest--
		return false
	}
	return c.inFlight.Load() == 1 && c.intake.Buffered() == 0
}

// lend serves a call in the leader. It returns false if the goroutine lost the lead.
func (c *serverConn) lend(cl *call) bool {
	c.crew.working.Add(1) // before the lead can be lost: who loses it counts as a worker
	turn := c.lead.Leave()
	c.server.watch.Add((*leader)(c))
	took, size := cl.run(), len(cl.msg)+cl.size()
	// The reply is not sent yet, so a call that is here now did not wait for it.
	waited := took > lease.Bearable && c.lead.unread()
	cl.send()
	if !c.lead.Return(turn) {
		return false
	}
	c.crew.working.Done()
	c.lead.judge(took, waited || size > large && c.lead.unread())
	return true
}

// judge decides whether leaders continue to serve calls after one that took so long.
// waited means that another call had to wait for it.
func (d *lead) judge(took time.Duration, waited bool) { d.Judge(took <= lease.Brisk && !waited) }

// arrived reports whether a connection has bytes that were not read.
func arrived(nc net.Conn) bool { return queued(nc, unix.SIOCINQ) > 0 }

// queued returns how many bytes a socket has that were not read (SIOCINQ), or that have not
// arrived at the peer (SIOCOUTQ). It returns 0 if nc has no descriptor.
func queued(nc net.Conn, queue uint) (n int) {
	if raw := rawConn(nc); raw != nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), queue) })
	}
	return n
}

// leader is a connection in its role as lease.Holder.
type leader serverConn

var _ lease.Holder = (*leader)(nil)

// Lease implements lease.Holder.
func (c *leader) Lease() *lease.Lease { return &c.lead.Lease }

// Expired implements lease.Holder. The leader has served a call for too long. It becomes a
// worker.
func (c *leader) Expired() {
	c.lead.Tire()
	go (*serverConn)(c).serve()
}
