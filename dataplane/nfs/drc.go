package nfs

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	binding "github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/peers"
)

// Replies answers repeated calls. A client repeats a call if it lost its connection
// before the reply came. It gets the first call's reply: a REMOVE that has worked must not
// be answered with NFS3ERR_NOENT. A call is identified by its XID, the client's address
// (the port changes with the connection), the procedure, and a checksum of credential and
// arguments. The stamp of AUTH_SYS does not count: Linux before 5.1 encodes a call anew each
// time it sends it, with the time as its stamp.
//
// It holds the calls that run, and the last maxReplies replies of the procedures that need it,
// for replyAge. When it is full, a reply replaces one of the client that has the most, so the
// calls of busy clients don't drop the replies of one that has lost its connection. A copy that
// arrives while the first call runs waits for it.
//
// A Server that takes the place of another one has the Replies of that one: clients repeat what
// they did not get an answer to while the connections of the former ended.
type Replies struct {
	seed maphash.Seed
	mu   sync.Mutex
	byID map[callID]*cachedReply
	kept *peers.List[*cachedReply] // of these, the calls that have ended
}

// maxReplies limits the replies: 64 calls in flight of each of 128 clients, which all repeat
// them when the network was away. Replies of these procedures have at most about 350 bytes.
// replyAge is the value of Linux's own server.
const (
	maxReplies = 8192
	replyAge   = 120 * time.Second
)

type callID struct {
	peer      netip.Addr
	xid, proc uint32
	sum       uint64
}

type cachedReply struct {
	id    callID
	done  chan struct{} // closed when reply and err are set; nil before there was a copy
	reply []byte
	err   error

	// Set when the call ends.
	since time.Time
	kept  *peers.Item[*cachedReply]
}

// NewReplies returns Replies without any.
func NewReplies() *Replies {
	return &Replies{seed: maphash.MakeSeed(), byID: make(map[callID]*cachedReply), kept: peers.NewList[*cachedReply](maxReplies)}
}

// serve executes a call, unless it is a copy.
func (c *Replies) serve(r *request) error {
	e, first := c.enter(c.identify(r.call))
	if !first {
		var gone error
		r.outside(func() { // the first call may have to go in before it ends
			select {
			case <-e.done:
			case <-r.ctx.Done():
				gone = r.ctx.Err()
			}
		})
		if gone != nil {
			return gone
		}
		r.call.Args.Claim() // like the first call
		r.reply.Stream = append(r.reply.Stream, e.reply...)
		return e.err
	}
	start := len(r.reply.Stream)
	e.err = errFailed
	defer c.leave(e) // also after a panic, with errFailed
	err := procedures[r.call.Procedure].run(r)
	if err == nil {
		e.reply = append([]byte(nil), r.reply.Stream[start:]...)
	}
	e.err = err
	return err
}

// errFailed answers copies of a call that failed.
var errFailed = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}

// ended is the done of calls that had ended when the first copy came.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter finds the call or adds it.
func (c *Replies) enter(id callID) (e *cachedReply, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.byID[id]; e != nil {
		switch {
		case e.kept == nil && e.done == nil:
			e.done = make(chan struct{})
		case e.kept != nil && time.Since(e.since) >= replyAge:
			c.kept.Remove(e.kept)
			e = nil
		case e.done == nil:
			e.done = ended
		}
	}
	if e != nil {
		return e, false
	}
	e = &cachedReply{id: id}
	c.byID[id] = e
	return e, true
}

// leave keeps the reply of a call that has ended, and gives it to the copies that wait.
func (c *Replies) leave(e *cachedReply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.done != nil {
		close(e.done)
	}
	e.since = time.Now()
	kept, lost := c.kept.Add(e.id.peer, e)
	e.kept = kept
	if lost != nil {
		delete(c.byID, lost.Value.id)
	}
}

var roundup [xdr.Unit]byte

func (c *Replies) identify(call *oncrpc.Call) callID {
	var h maphash.Hash
	h.SetSeed(c.seed)
	cred := call.Cred.Body
	if call.Cred.Flavor == oncrpc.FlavorSys {
		cred = cred[min(xdr.Unit, len(cred)):] // without the stamp
	}
	h.Write(cred)
	at := 0
	for _, pad := range padding(call) {
		h.Write(call.Args.Stream[at:pad.Off])
		at = pad.Off + pad.Len
	}
	h.Write(call.Args.Stream[at:])
	for i := range call.Args.Items { // the target of a SYMLINK, its last argument; without items it is in the stream
		item := &call.Args.Items[i]
		h.Write(item.Data)
		for _, part := range item.More {
			h.Write(part)
		}
		h.Write(roundup[:xdr.Pad(item.Len())])
	}
	return callID{peer: call.Peer.Addr(), xid: call.XID, proc: call.Procedure, sum: h.Sum64()}
}

var bindings = ulb.NewRegistry(binding.Bindings()...)

// padding returns the padding in the arguments of a call that came as RDMA_MSGP. The call may be sent again in a
// message without it.
func padding(call *oncrpc.Call) []walk.Pad {
	if call.Args.Padding.Align == 0 {
		return nil
	}
	var plan ulb.Plan
	_ = plan.Call(bindings, call) // after an error it knows no padding
	pads, _ := plan.Pads()
	return pads
}
