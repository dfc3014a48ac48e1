package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// op is a chain of work requests that belong together, with what they hold.
// Ops are used again.
type op struct {
	kind opKind
	slot int // of the call that it is for
	// fetch, if not nil, is notified instead of the role when the op ends.
	fetch *fetch

	wrs    []verbs.SendWR
	sges   []verbs.SGE // storage of the requests' lists
	posted int
	// signal asks for a completion of the last request. Without, the op ends
	// with a later one.
	signal bool
	// detached: the role knows it as done already.
	detached bool
	// waited: there was no slot for it at first.
	waited bool

	// sink is what the op's Reads are placed in, where that needs a registration of
	// its own; see sink.go.
	sink verbs.MR

	bufs []*regmem.Buffer // released when the op ends
	held int              // their bytes
}

// opKind says what the role does when an op is posted or ends.
type opKind uint8

const (
	opFetch    opKind = iota // RDMA Reads of a message's chunks
	opAnswer                 // RDMA Writes and a Send
	opExpose                 // binds of windows; the Send follows when they are posted
	opRequest                // opExpose with its Send
	opFence                  // local invalidations
	opBind                   // binds of windows on a reply
	opUnexpose               // their invalidations
	opNotice                 // a Send of RDMA_DONE or XMTERR
	opTell                   // a Send of an operation without a call
	opFlush                  // a signaled request that asks the peer for nothing
)

// hold makes the op release b at its end. Memory that is not the pool's is not
// kept longer than need be.
func (o *op) hold(b *regmem.Buffer) {
	o.bufs = append(o.bufs, b)
	o.held += len(b.Bytes())
	o.signal = o.signal || !b.Pooled()
}

// sgl adds a list of n entries for the op's next request.
func (o *op) sgl(entries ...verbs.SGE) []verbs.SGE {
	at := len(o.sges)
	o.sges = append(o.sges, entries...)
	return o.sges[at:len(o.sges):len(o.sges)]
}

func (o *op) reset() {
	clear(o.wrs)
	clear(o.sges)
	clear(o.bufs)
	*o = op{wrs: o.wrs[:0], sges: o.sges[:0], bufs: o.bufs[:0]}
}

// release gives back what the op holds.
func (o *op) release() {
	for _, b := range o.bufs {
		b.Release()
	}
	clear(o.bufs)
	o.bufs, o.held = o.bufs[:0], 0
}

// batch is a run of requests of one op that was posted.
type batch struct {
	op       *op
	n        int
	bytes    int  // that they move
	reads    int  // RDMA Reads among them that are counted
	signaled bool // the last of them is
	last     bool // the op's last request is among them
}

// sendQueue puts ops in line for the queue pair, in order and as that has room,
// and tells which have ended. Requests complete in order, so that the completion
// of a signaled one ends all before it. Posted is from here on what is in line:
// the slots are taken, and only post.go knows what the queue pair has yet to get.
type sendQueue struct {
	depth         int
	used          int         // slots
	line          line        // to the queue pair
	reads         readLimit   // on what is posted
	unsigned      int         // ops since the last signaled request
	unsignedBytes int         // and what they hold
	detachedBytes int         // what detached ops hold
	pending       fifo[*op]   // not yet, or in part, posted
	out           fifo[batch] // posted, oldest first
	signals       int         // signaled batches in out
	free          []*op
	still         int    // ticks without a completion while one is due
	done          uint64 // bytes of requests that completed
}

func (q *sendQueue) newOp(kind opKind, slot int) *op {
	var o *op
	if n := len(q.free); n > 0 {
		o, q.free = q.free[n-1], q.free[:n-1]
	} else {
		o = new(op)
	}
	o.kind, o.slot = kind, slot
	return o
}

func (q *sendQueue) recycle(o *op) {
	o.reset()
	q.free = append(q.free, o)
}

// idle says whether everything was posted.
func (q *sendQueue) idle() bool { return q.pending.len() == 0 }

// given says whether the queue pair has everything that was posted.
func (q *sendQueue) given() bool { return len(q.line.next) == 0 && !q.line.moving }

// room is the number of o's requests that can be posted now.
func (q *sendQueue) room(o *op) int {
	return q.reads.allow(o.wrs[o.posted : o.posted+min(q.depth-q.used, len(o.wrs)-o.posted)])
}

// post posts what there is room for of o, the oldest pending op, and says
// whether it is posted whole. The caller has put o's requests together.
func (q *sendQueue) post(o *op) (whole bool) {
	n := q.room(o)
	if n == 0 {
		return o.posted == len(o.wrs)
	}
	wrs := o.wrs[o.posted : o.posted+n]
	whole = o.posted+n == len(o.wrs)
	reads := q.reads.post(wrs)
	signaled := !whole || o.signal || reads > 0 || q.due(o, n)
	if signaled {
		wrs[n-1].Flags |= verbs.SendSignaled
		q.unsigned, q.unsignedBytes = 0, 0
		q.signals++
	} else {
		q.unsigned++
		q.unsignedBytes += o.held
	}
	q.line.next = append(q.line.next, wrs...)
	o.posted += n
	q.used += n
	q.out.push(batch{op: o, n: n, bytes: length(wrs), reads: reads, signaled: signaled, last: whole && o.kind != opExpose})
	return whole
}

// length is the number of bytes that requests move.
func length(wrs []verbs.SendWR) (n int) {
	for i := range wrs {
		for _, e := range wrs[i].SGL {
			n += e.Length
		}
	}
	return n
}

// due says whether the last n requests of o need a completion because of those
// before them: what waits for one is bounded, and a queue that is full, or
// nearly so, needs one to come.
func (q *sendQueue) due(o *op, n int) bool {
	return q.unsigned+1 >= signalEvery || q.unsignedBytes+o.held > signalBytes || q.used+n > q.depth/2
}

// flush gives an op whose completion ends all that was posted, nil when one is
// due anyway or there is nothing.
func (q *sendQueue) flush() *op {
	if q.unsigned == 0 || !q.idle() {
		return nil
	}
	o := q.newOp(opFlush, 0)
	o.wrs, o.signal, o.detached = append(o.wrs, verbs.SendWR{Op: verbs.OpRDMAWrite}), true, true
	return o
}

// mayDetach says whether the role may know an op as done once it is posted: what
// such ops hold is bounded.
func (q *sendQueue) mayDetach(o *op) bool { return q.detachedBytes+o.held <= detachBytes }

// detach notes that the role does.
func (q *sendQueue) detach(o *op) {
	o.detached = true
	q.detachedBytes += o.held
}

// completed takes the oldest signaled batch and everything before it, and
// appends the ops that ended.
func (q *sendQueue) completed(ended []*op) []*op {
	q.still = 0
	for q.out.len() > 0 {
		b := q.out.pop()
		q.used -= b.n
		q.done += uint64(b.bytes)
		q.reads.active -= b.reads
		if b.last {
			if b.op.detached {
				q.detachedBytes -= b.op.held
			}
			ended = append(ended, b.op)
		}
		if b.signaled {
			q.signals--
			break
		}
	}
	return ended
}

// stalled is asked once a tick: no completion for long though one is due.
func (q *sendQueue) stalled() bool {
	if q.signals == 0 {
		q.still = 0
		return false
	}
	q.still++
	return q.still > stallTicks
}

// shrink frees storage that nothing lies in.
func (q *sendQueue) shrink() {
	q.free = nil
	q.pending.shrink()
	q.out.shrink()
	if q.given() {
		q.line.next, q.line.spare = nil, nil
	}
}

// releaseAll gives back what all ops hold, once the queue pair is gone.
func (q *sendQueue) releaseAll() {
	for q.out.len() > 0 {
		q.out.pop().op.release()
	}
	for q.pending.len() > 0 {
		q.pending.pop().release()
	}
}
