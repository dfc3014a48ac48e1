package nfs

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// replyCache answers repeated calls. A client repeats a call if it lost its connection
// before the reply came. It gets the first call's reply: a REMOVE that has worked must not
// be answered with NFS3ERR_NOENT. A call is identified by its XID, the client's address
// (the port changes with the connection), the procedure, and a checksum of credential and
// arguments.
//
// It holds the last maxReplies calls of the procedures that need it, for replyAge. A copy
// that arrives while the first call runs waits for it.
type replyCache struct {
	seed maphash.Seed
	mu   sync.Mutex
	byID map[callID]*cachedReply
	ring [maxReplies]*cachedReply // in order of arrival
	next int
}

// maxReplies limits the cache. Replies of these procedures have at most about 350 bytes.
// replyAge is the value of Linux's own server.
const (
	maxReplies = 2048
	replyAge   = 120 * time.Second
)

type callID struct {
	peer      netip.Addr
	xid, proc uint32
	sum       uint64
}

type cachedReply struct {
	id    callID
	since time.Time
	done  chan struct{} // closed when stream and err are set
	reply []byte
	err   error
}

func newReplyCache() *replyCache {
	return &replyCache{seed: maphash.MakeSeed(), byID: make(map[callID]*cachedReply)}
}

// serve executes a call, unless it is a copy.
func (c *replyCache) serve(r *request) error {
	e, first := c.enter(c.identify(r.call))
	if !first {
		select {
		case <-e.done:
			r.call.Args.Claim() // like the first call
			r.reply.Stream = append(r.reply.Stream, e.reply...)
			return e.err
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
	start := len(r.reply.Stream)
	e.err = errFailed
	defer close(e.done) // also after a panic, with errFailed
	err := procedures[r.call.Procedure].run(r)
	if err == nil {
		e.reply = append([]byte(nil), r.reply.Stream[start:]...)
	}
	e.err = err
	return err
}

// errFailed answers copies of a call that failed.
var errFailed = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}

// enter finds the call or adds it.
func (c *replyCache) enter(id callID) (e *cachedReply, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if e := c.byID[id]; e != nil && now.Sub(e.since) < replyAge {
		return e, false
	}
	e = &cachedReply{id: id, since: now, done: make(chan struct{})}
	if old := c.ring[c.next]; old != nil && c.byID[old.id] == old {
		delete(c.byID, old.id)
	}
	c.ring[c.next] = e
	c.next = (c.next + 1) % maxReplies
	c.byID[id] = e
	return e, true
}

func (c *replyCache) identify(call *oncrpc.Call) callID {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.Write(call.Cred.Body)
	h.Write(call.Args.Stream)
	for i := range call.Args.Items {
		h.Write(call.Args.Items[i].Data)
		for _, part := range call.Args.Items[i].More {
			h.Write(part)
		}
	}
	return callID{peer: call.Peer.Addr(), xid: call.XID, proc: call.Procedure, sum: h.Sum64()}
}
