package rpctcp

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/peers"
)

// join gives the connection its share of the server's memory.
func (c *serverConn) join() {
	s, peer := c.server, c.peer.Addr()
	c.calls, c.replies, c.streams.share = s.calls.join(peer), s.replies.join(peer), s.streams.Join(peers.Of(peer), 1)
	s.relief.Join(c)
}

// leave gives up the connection's place and its share of the server's memory.
func (c *serverConn) leave() {
	c.place.Leave()
	c.counted.Leave()
	c.server.keepBytes(c)
	c.server.relief.Leave(c)
	for _, s := range c.shares() {
		s.Leave()
	}
}

func (c *serverConn) shares() [3]*fair.Share {
	return [...]*fair.Share{c.calls.share, c.replies.share, c.streams.share}
}

// waiting returns how many requests wait for memory: those of this server, and all that wait for memory of the process.
func (s *Server) waiting() (n int) {
	n = offheap.Waiting()
	for _, p := range [...]*fair.Pool{s.calls.fair, s.replies.fair, s.streams} {
		n += p.Usage().Waiting
	}
	return n
}

// owed returns how many bytes of replies wait for the peer or are being made.
func (c *serverConn) owed() int { return int(c.replies.share.Held() + c.streams.share.Held()) }

// Behind implements Borrower.
func (c *serverConn) Behind() time.Duration { return max(c.intake.Behind(), c.out.Behind()) }

// Wanted implements Borrower. Calls and replies, but not streams, are in the process's mapped memory.
func (c *serverConn) Wanted() (n int64) {
	scarce := offheap.Waiting() > int(c.calls.mapping.Load()+c.replies.mapping.Load())
	for _, s := range c.shares() {
		if s.OthersWait() || scarce && s != c.streams.share {
			n += s.Held()
		}
	}
	return n
}

// Cut implements Borrower.
func (c *serverConn) Cut(reason error) { c.cut(reason) }
