package connector

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// keepStream is the largest storage of a stream, in bytes, that is kept for later calls.
const keepStream = 64 << 10

// call is a client's call in flight. It is reused when its reply is written.
type call struct {
	s    *session
	hdr  oncrpc.Call
	plan ulb.Plan
	rpc  rpcrdma.Call
	// stream is the call without its DDP-eligible items. The arguments begin at body.
	stream []byte
	body   int
	// head and short are storage of a short stream and of a short reply, which the call
	// keeps.
	head, short []byte
	// unsure means that the binding does not understand all of the arguments.
	unsure bool
	// gated means that the call counts as in flight. begun means that its XID is recorded.
	gated, begun bool
	// reserved is what the call holds of the budgets, in bytes.
	reserved int64
	times    *slow.Timeline // nil while slow calls are not measured
	began    time.Time      // when the call was made
	over     func(error, bool)
	// apart holds Apart of the results found so far. find[i] is Find of result i.
	apart []int
	find  []func([]byte) int

	// The reply: its record mark, its message, and the results that stand apart from it.
	mark  [oncrpc.RecordMarkSize]byte
	reply []byte
	items []oncrpc.ReplyItem
}

// reserve takes n bytes of the budgets of the client and of the connector.
func (cl *call) reserve(n int64) error {
	s := cl.s
	if err := s.budget.Acquire(s.ctx, n); err != nil {
		return err
	}
	if err := s.share.Acquire(s.ctx, n); err != nil {
		s.budget.Release(n)
		return err
	}
	cl.reserved = n
	return nil
}

// settle returns all but n bytes of what was reserved.
func (cl *call) settle(n int64) {
	if rest := cl.reserved - n; rest > 0 {
		cl.s.budget.Release(rest)
		cl.s.share.Release(rest)
		cl.reserved = n
	}
}

// provide prepares the call: it gets memory for its results and for the largest reply.
func (cl *call) provide() error {
	h, rpc := &cl.hdr, &cl.rpc
	rpc.Program, rpc.Version, rpc.Procedure, rpc.Cred, rpc.Verf = h.Program, h.Version, h.Procedure, h.Cred, h.Verf
	rpc.XID, rpc.OwnXID, rpc.Whole = h.XID, true, true
	rpc.Args = cl.stream[cl.body:]
	rpc.Reply = cl.short
	need := cl.planReply() + cl.callCost()
	if cl.reserved > 0 {
		cl.settle(need)
	} else if err := cl.reserve(need); err != nil {
		return err
	}
	if rpc.MaxReply+oncrpc.AcceptedReplySize > cap(cl.short) {
		rpc.Reply = cl.s.c.spares.Take(cl.short)
	}
	for i := range rpc.Results {
		r := &rpc.Results[i]
		if r.Buf != nil {
			continue
		}
		buf, err := cl.s.rdma.Alloc(cl.s.ctx, xdr.Padded(r.Max))
		if err != nil {
			rpc.Results = rpc.Results[:i]
			return err
		}
		r.Buf = buf
	}
	return nil
}

// planReply plans the results that may stand apart and the largest reply. It returns the
// memory that they need, in bytes. Link targets get no write chunk: they are usually shorter
// than a Send, and the Linux server (fs/nfsd/nfs4xdr.c, nfsd4_encode_readlink) writes the
// length word as their first bytes. Results after a link target get none either, because the
// server fills chunks in order. They are listed all the same: a target that pads replies
// (RDMA_MSGP) pads them, too. If there are more than the list holds, a padded reply is refused.
func (cl *call) planReply() int64 {
	rpc, largest := &cl.rpc, cl.largestReply()
	room, need, whole := rpcrdma.MaxMessage, int64(0), false
	for i := range cl.plan.Results {
		r := rpcrdma.Result{Max: min(cl.plan.Results[i].Max, room), Asked: cl.plan.Results[i].Asked}
		if whole = whole || cl.plan.Results[i].Path || i >= maxApart; whole {
			largest += xdr.Padded(r.Max)
			r.Max, r.Buf = 0, inReply{}
		} else {
			room -= xdr.Padded(r.Max)
			need += footprint(xdr.Padded(r.Max))
		}
		if i < maxApart {
			r.Find = cl.finder(i)
			rpc.Results = append(rpc.Results, r)
		} else {
			rpc.Results[maxApart-1].Find = nil
		}
	}
	rpc.MaxReply = min(largest, rpcrdma.MaxMessage-oncrpc.AcceptedReplySize)
	return need + footprint(rpc.MaxReply)
}

// inReply is the memory of a result that gets no write chunk.
type inReply struct{}

func (inReply) Bytes() []byte { return nil }
func (inReply) Release()      {}

// largestReply returns the most bytes of the results, without those that may stand apart.
func (cl *call) largestReply() int {
	switch most := int(cl.s.c.cfg.MaxReply); {
	case cl.hdr.Procedure == 0 && cl.hdr.Cred.Flavor != oncrpc.FlavorGSS:
		return 0 // by convention neither arguments nor results (RFC 5531 §12.1)
	case cl.unsure:
		return max(most, cl.plan.MaxReply)
	case cl.plan.MaxReply == ulb.Unknown && cl.plan.Protected(): // it may be a READ
		return rpcrdma.MaxMessage
	case cl.plan.MaxReply == ulb.Unknown:
		return most
	}
	return cl.plan.MaxReply
}

// callCost returns the memory of the call in bytes: its items, and the message with all items
// but the largest.
func (cl *call) callCost() int64 {
	need, message, largest := int64(0), len(cl.stream), 0
	for i := range cl.rpc.Items {
		n := cl.rpc.Items[i].Len
		need += footprint(n)
		message += n
		largest = max(largest, n)
	}
	return need + footprint(min(message-largest+minBuffer, rpcrdma.MaxMessage))
}

// start makes the call and does not wait. The goroutine that polls the connection to the
// target writes the reply. A worker makes a call that has to wait for memory.
func (cl *call) start() {
	s := cl.s
	cl.began = time.Now()
	if !s.rdma.Go(&cl.rpc, cl.over) {
		s.crew.Give(cl, s.c.cfg.MaxCalls) // never more workers than calls may be in flight
	}
}

// Serve makes the call in a worker.
func (cl *call) Serve() { cl.ended(cl.s.rdma.Call(cl.s.ctx, &cl.rpc), false) }

// ended writes the reply of a call that is over, or leaves it to the next one if that follows
// at once. If the connection to the target has ended, there is no reply, and the client
// repeats the call on its next connection.
func (cl *call) ended(err error, more bool) {
	s, now := cl.s, time.Now()
	took := now.Sub(cl.began)
	s.seat.Took(took)
	cl.times.Note(slow.Started, cl.began)
	cl.times.Note(slow.Served, now)
	cl.times.Upstream(took)
	s.forget(cl)
	cl.freeItems()
	if err == nil {
		err = cl.compose()
	}
	switch {
	case err == nil:
		s.out.Queue(cl)
	case lost(err):
		s.unanswered.Store(true)
		s.slow.EndNow(cl.times, true)
		cl.end()
	default:
		s.c.stats.failed.Add(1)
		s.about(cl, err).Warn("call answered with SYSTEM_ERR")
		cl.answer(err)
		s.out.Queue(cl)
	}
	if !more {
		s.out.Flush()
	}
}

// lost reports whether a call failed because its connection ended.
func lost(err error) bool {
	_, ended := errors.AsType[*rpcrdma.Error](err)
	return ended || errors.Is(err, rpcrdma.ErrClosed) || errors.Is(err, rpcrdma.ErrDraining) ||
		errors.Is(err, context.Canceled) || errors.Is(err, errEnded)
}

// answer makes a reply that reports err.
func (cl *call) answer(err error) {
	cl.freeLong()
	cl.rpc.Reply = oncrpc.AppendError(cl.rpc.Reply[:0], cl.hdr.XID, err)
	cl.reply, cl.items = cl.rpc.Reply, cl.items[:0]
}

// answerWith makes a reply with results.
func (cl *call) answerWith(results []byte) {
	cl.freeLong()
	cl.rpc.Reply = append(oncrpc.AppendAcceptedReply(cl.rpc.Reply[:0], cl.hdr.XID), results...)
	cl.reply, cl.items = cl.rpc.Reply, cl.items[:0]
}

// size returns the length of the reply in bytes, without its record mark.
func (cl *call) size() int { return rpctcp.Size(cl.reply, cl.items) }

// AppendTo implements rpctcp.Outgoing. Results are written directly from the memory in which
// the target placed them.
func (cl *call) AppendTo(vec net.Buffers) net.Buffers {
	cl.times.Pass(slow.Posted)
	return rpctcp.AppendReply(vec, &cl.mark, cl.reply, cl.items)
}

// Sent implements rpctcp.Outgoing.
func (cl *call) Sent(err error) {
	cl.s.slow.EndNow(cl.times, err != nil)
	if err == nil {
		cl.s.c.stats.replies.Add(1)
		cl.s.c.stats.bytesOut.Add(uint64(oncrpc.RecordMarkSize + cl.size()))
	} else {
		cl.s.unanswered.Store(true)
	}
	cl.end()
}

// end releases what the call holds.
func (cl *call) end() {
	cl.freeItems()
	for i := range cl.rpc.Results {
		cl.rpc.Results[i].Buf.Release()
		cl.rpc.Results[i] = rpcrdma.Result{}
	}
	cl.rpc.Results = cl.rpc.Results[:0]
	cl.freeLong()
	clear(cl.items)
	cl.reply, cl.items = nil, cl.items[:0]
	cl.head = cl.s.c.spares.Keep(cl.head, cl.stream)
	cl.short = cl.s.c.spares.Keep(cl.short, cl.rpc.Reply)
	cl.stream, cl.rpc.Reply = nil, nil
	cl.rpc.Args, cl.rpc.Cred, cl.rpc.Verf, cl.unsure = nil, oncrpc.Auth{}, oncrpc.Auth{}, false
	cl.settle(0)
	cl.s.forget(cl)
	cl.s.recycle(cl)
}

func (cl *call) freeItems() {
	for i := range cl.rpc.Items {
		cl.rpc.Items[i].Buf.Release()
		cl.rpc.Items[i] = oncrpc.ReplyItem{}
	}
	cl.rpc.Items = cl.rpc.Items[:0]
}

func (cl *call) freeLong() {
	if cl.rpc.Long != nil {
		cl.rpc.Long.Release()
		cl.rpc.Long, cl.rpc.LongLen = nil, 0
	}
}
