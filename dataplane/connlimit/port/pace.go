package port

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// A server of HTTP/2 reads frames that are not part of a request, for example PING, as fast
// as they arrive. So the bytes that clients send are paced. No request is as long as burst.
const (
	unpaced   = 32 << 10        // bytes that a new connection may send at any rate
	perSecond = 256 << 10       // bytes per second of all connections of a key together
	burst     = 2 * perSecond   // bytes that they may send at once
	piece     = 4 << 10         // bytes that a connection reads at once while it is paced
	longest   = 2 * time.Second // that a connection waits
)

// paces are the paces of the keys that have connections.
type paces struct {
	mu    sync.Mutex
	byKey map[connlimit.Key]*pace
}

// pace limits the rate at which the connections of one key are read.
type pace struct {
	bucket *rate.Limiter
	key    connlimit.Key
	conns  int
}

// join returns the pace of a key, for one more connection.
func (ps *paces) join(key connlimit.Key) *pace {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byKey[key]
	if p == nil {
		p = &pace{bucket: rate.NewLimiter(perSecond, burst), key: key}
		ps.byKey[key] = p
	}
	p.conns++
	return p
}

// leave takes a connection from p, which may be nil.
func (ps *paces) leave(p *pace) {
	if p == nil {
		return
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.conns--; p.conns == 0 {
		delete(ps.byKey, p.key)
	}
}

// spend counts n bytes, and returns when the connection may read again.
func (p *pace) spend(n int, now time.Time) time.Time {
	if behind := -p.bucket.TokensAt(now); behind >= longest.Seconds()*perSecond {
		return now.Add(longest)
	}
	return now.Add(p.bucket.ReserveN(now, min(n, burst)).DelayFrom(now))
}

// Read implements net.Conn. It waits while the connections of its key have sent too much.
func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	wait := time.Until(c.next)
	c.mu.Unlock()
	if wait > 0 {
		b = b[:min(len(b), piece)]
		select {
		case <-time.After(wait):
		case <-c.done: // the read then fails
		}
	}
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += int64(n)
	if next := c.pace.spend(n, time.Now()); c.sent > unpaced {
		c.next = next
	}
	return n, err
}
