package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// op is a chain of work requests that belong together, and what they hold. Ops are reused.
type op struct {
	kind opKind
	slot int // of its call
	// fetch, if not nil, is notified instead of the role when the op ends.
	fetch *fetch

	wrs    []verbs.SendWR
	sges   []verbs.SGE // storage of the requests' lists
	posted int
	// signal asks for a completion of the last request. Without it, the op ends with a
	// later one.
	signal bool
	// detached: the role treats it as done already.
	detached bool
	// waited: there was no slot for it at first.
	waited bool

	// sink is the memory that the op's Reads fill, if that needs its own registration; see
	// sink.go.
	sink verbs.MR

	times *slow.Timeline // of the call that it answers; nil while that is not measured

	bufs []*regmem.Buffer // released when the op ends
	held int              // size of bufs in bytes
}

// opKind decides what the role does when an op is posted or ends.
type opKind uint8

const (
	opFetch    opKind = iota // RDMA Reads of a message's chunks
	opAhead                  // RDMA Writes before the answer
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

// hold makes the op release b when it ends. Memory that is not the pool's is released as
// early as possible.
func (o *op) hold(b *regmem.Buffer) {
	o.bufs = append(o.bufs, b)
	o.held += len(b.Bytes())
	o.signal = o.signal || !b.Pooled()
}

// sgl adds a list of entries for the op's next request.
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

// release frees what the op holds.
func (o *op) release() {
	for _, b := range o.bufs {
		b.Release()
	}
	clear(o.bufs)
	o.bufs, o.held = o.bufs[:0], 0
}

// batch is a run of posted requests of one op.
type batch struct {
	op       *op
	n        int
	bytes    int  // that the requests move
	reads    int  // counted RDMA Reads among them
	signaled bool // the last request is signaled
	last     bool // it contains the op's last request
}

// sendQueue posts ops in order, as the queue pair has room, and reports which have ended.
// Requests complete in order, so the completion of a signaled request ends all before it.
// In this file "posted" means added to the line: the slots are in use, and only post.go
// knows which requests the queue pair does not have yet.
type sendQueue struct {
	depth         int
	used          int         // slots in use
	line          line        // to the queue pair
	reads         readLimit   // on posted Reads
	unsigned      int         // ops since the last signaled request
	unsignedBytes int         // bytes that these ops hold
	detachedBytes int         // bytes that detached ops hold
	pending       fifo[*op]   // not posted, or only in part
	out           fifo[batch] // posted, oldest first
	signals       int         // signaled batches in out
	ahead         int         // batches of opAhead in out
	free          []*op
	still         int    // ticks without a completion while one is due
	done          uint64 // bytes moved by completed requests
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

// idle reports whether everything is posted.
func (q *sendQueue) idle() bool { return q.pending.len() == 0 }

// given reports whether the queue pair has everything that was posted.
func (q *sendQueue) given() bool { return len(q.line.next) == 0 && !q.line.moving }

// room returns how many of o's requests can be posted now.
func (q *sendQueue) room(o *op) int {
	return q.reads.allow(o.wrs[o.posted : o.posted+min(q.depth-q.used, len(o.wrs)-o.posted)])
}

// post posts as much of o, the oldest pending op, as fits. It reports whether all of o is
// posted. The caller has prepared o's requests.
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
	if o.kind == opAhead {
		q.ahead++
	}
	q.out.push(batch{op: o, n: n, bytes: length(wrs), reads: reads, signaled: signaled, last: whole && o.kind != opExpose})
	return whole
}

// length returns how many bytes the requests move.
func length(wrs []verbs.SendWR) (n int) {
	for i := range wrs {
		for _, e := range wrs[i].SGL {
			n += e.Length
		}
	}
	return n
}

// due reports whether the last n requests of o must be signaled because of earlier ones:
// the number of ops that wait for a completion has a limit, and so has their memory, and a
// queue that is nearly full needs a completion.
func (q *sendQueue) due(o *op, n int) bool {
	return q.unsigned+1 >= signalEvery || q.unsignedBytes+o.held > signalBytes || q.used+n > q.depth/2
}

// flush returns an op whose completion ends all that was posted. It returns nil if a
// completion is due anyway or nothing is posted.
func (q *sendQueue) flush() *op {
	if q.unsigned == 0 || !q.idle() {
		return nil
	}
	o := q.newOp(opFlush, 0)
	o.wrs, o.signal, o.detached = append(o.wrs, verbs.SendWR{Op: verbs.OpRDMAWrite}), true, true
	return o
}

// mayDetach reports whether the role may treat an op as done once it is posted. The memory
// of such ops has a limit.
func (q *sendQueue) mayDetach(o *op) bool { return q.detachedBytes+o.held <= detachBytes }

// detach marks an op as done for the role.
func (q *sendQueue) detach(o *op) {
	o.detached = true
	q.detachedBytes += o.held
}

// completed removes the oldest signaled batch and all before it, and appends the ops that
// ended to ended.
func (q *sendQueue) completed(ended []*op) []*op {
	q.still = 0
	for q.out.len() > 0 {
		b := q.out.pop()
		q.used -= b.n
		q.done += uint64(b.bytes)
		q.reads.active -= b.reads
		if b.op.kind == opAhead {
			q.ahead--
		}
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

// waits reports whether the memory of anything posted waits for the peer. Memory that is
// written ahead waits for its service first.
func (q *sendQueue) waits() bool { return q.out.len() > q.ahead }

// stalled is called once a tick. It reports that a due completion has been missing for too
// long.
func (q *sendQueue) stalled() bool {
	if q.signals == 0 {
		q.still = 0
		return false
	}
	q.still++
	return q.still > stallTicks
}

// shrink frees unused storage.
func (q *sendQueue) shrink() {
	q.free = nil
	q.pending.shrink()
	q.out.shrink()
	if q.given() {
		q.line.next, q.line.spare = nil, nil
	}
}

// releaseAll frees what all ops hold, once the queue pair is destroyed.
func (q *sendQueue) releaseAll() {
	for q.out.len() > 0 {
		q.out.pop().op.release()
	}
	for q.pending.len() > 0 {
		q.pending.pop().release()
	}
}
