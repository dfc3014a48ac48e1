package transport

import (
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// Replies that the peer reads (RFC 5666 §3.8). The peer reads a copy in memory that is
// registered only for this, because the pool's memory never has rights for a peer. The peer
// reads through memory windows or, on devices without them, through the registration.

// DefaultDoneTimeout is the default time in which a peer must read a reply and acknowledge
// it.
const DefaultDoneTimeout = 30 * time.Second

// exposureShare is the fraction (1/8) of a host's memory limit that may be exposed at once,
// in addition to the pool.
const exposureShare = 8

// limitExposures follows the limit of the host's pooled memory.
func (h *Host) limitExposures(memory int64) {
	h.exposable.limit.Store(max(memory/exposureShare, conn.MaxMessage))
}

// exposure is the transport's state of a reply that the peer reads.
type exposure struct {
	core    *conn.Exposure
	mem     *offheap.Region
	mr      verbs.MR // nil when nothing is exposed
	offs    []int    // offsets of the chunks
	windows []window
	since   time.Time // when the reply was sent
}

// budget limits a number of bytes.
type budget struct{ limit, used atomic.Int64 }

func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) <= b.limit.Load() {
		return true
	}
	b.give(n)
	return false
}

func (b *budget) give(n int) { b.used.Add(-int64(n)) }

// expose implements the Expose action.
func (r *Responder) expose(c *call) {
	e := c.call.Exposure
	for len(r.exposures) <= e.Index {
		r.exposures = append(r.exposures, new(exposure))
	}
	x := r.exposures[e.Index]
	x.core, x.offs = e, x.offs[:0]
	n := 0
	for i := range e.Chunks {
		n = align(n)
		x.offs = append(x.offs, n)
		n += e.Chunks[i].Length
	}
	if !r.host.exposable.take(n) {
		r.acts = r.core.NotExposed(c.call, r.acts)
		return
	}
	region, err := offheap.Alloc(n)
	if err != nil {
		r.host.exposable.give(n)
		r.acts = r.core.NotExposed(c.call, r.acts)
		return
	}
	mem := region.Bytes()[:n]
	for i := range e.Chunks {
		c.lay(mem[x.offs[i]:], e.Chunks[i].Pieces)
	}
	access := verbs.AccessRemoteRead
	if r.host.attr.MemWindowType2B {
		access = verbs.AccessMWBind
	}
	mr, err := r.host.pd.RegMR(mem, access)
	if err != nil {
		region.Free()
		r.host.exposable.give(n)
		r.dieLocked(err)
		return
	}
	x.mem, x.mr = region, mr
	r.stats.PullupBytes += uint64(n)
	r.stats.Registrations++
	if r.host.attr.MemWindowType2B {
		r.bind(x, c)
		return
	}
	for i := range e.Chunks {
		e.Chunks[i].RKey, e.Chunks[i].Addr = mr.RKey(), mr.Addr()+uint64(x.offs[i])
	}
	r.nowExposed(x, c)
}

// lay copies pieces of a reply to mem. Padding stays zero.
func (c *call) lay(mem []byte, pieces []chunk.Piece) {
	for _, p := range pieces {
		switch p.From {
		case chunk.Stream:
			copy(mem, c.reply.Stream[p.Off:p.Off+p.Len])
		case chunk.Zeros:
		default:
			copy(mem, c.reply.Items[p.From].Buf.Bytes()[p.Off:p.Off+p.Len])
		}
		mem = mem[p.Len:]
	}
}

// bind posts the requests that give x's windows their keys. nowExposed follows.
func (r *Responder) bind(x *exposure, c *call) {
	o := r.sq.newOp(opBind, c.call.Index)
	o.signal = true
	for i := range x.core.Chunks {
		w, err := r.window()
		if err != nil {
			r.sq.recycle(o)
			r.dieLocked(err)
			return
		}
		x.windows = append(x.windows, w)
		o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpBindMW, Bind: verbs.BindInfo{
			MW: w, MR: x.mr, Offset: x.offs[i], Length: x.core.Chunks[i].Length, Access: verbs.AccessRemoteRead,
		}})
		r.stats.Registrations++
	}
	r.submit(o)
}

// bound is called when the windows of a call's exposure have their keys.
func (r *Responder) bound(c *call) {
	x := r.exposures[c.call.Exposure.Index]
	for i, w := range x.windows {
		x.core.Chunks[i].RKey, x.core.Chunks[i].Addr = w.RKey(), w.Addr()
	}
	r.nowExposed(x, c)
}

func (r *Responder) nowExposed(x *exposure, c *call) {
	x.since = time.Now()
	r.stats.RoundTrips++
	r.acts = r.core.Exposed(c.call, r.acts)
}

// unexpose implements the Unexpose action.
func (r *Responder) unexpose(e *conn.Exposure) {
	x := r.exposures[e.Index]
	if len(x.windows) == 0 {
		r.unexposed(x)
		return
	}
	o := r.sq.newOp(opUnexpose, e.Index)
	o.signal = true
	for _, w := range x.windows {
		o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpLocalInvalidate, InvalidateRKey: w.RKey()})
		r.stats.LocalInvalidations++
	}
	r.submit(o)
}

// unexposed is called when the peer can no longer use x's windows.
func (r *Responder) unexposed(x *exposure) {
	r.recycleWindows(&x.windows)
	if err := r.freeExposure(x); err != nil {
		r.dieLocked(err)
		return
	}
	r.core.Unexposed(x.core)
}

// freeExposure frees x's memory.
func (r *Responder) freeExposure(x *exposure) error {
	if x.mr == nil {
		return nil
	}
	n := len(x.mr.Bytes())
	if err := x.mr.Close(); err != nil {
		return err
	}
	x.mem.Free()
	x.mem, x.mr = nil, nil
	r.host.exposable.give(n)
	return nil
}

// ticked implements role. It reclaims replies that the peer took too long to read.
func (r *Responder) ticked(now time.Time) {
	for _, x := range r.exposures {
		if x.mr != nil && now.Sub(x.since) >= r.host.doneTimeout {
			r.acts = r.core.Reclaim(x.core, r.acts)
		}
	}
	r.carryOut()
	if r.rq.below > 0 {
		r.resized()
	}
	r.prepareCalls()
}

// freeExposures frees all exposed memory when the connection ends.
func (r *Responder) freeExposures() {
	for _, x := range r.exposures {
		if x.mr != nil {
			r.stats.WindowsOrphaned += uint64(len(x.windows))
		}
		if err := r.freeExposure(x); err != nil {
			r.host.log.Error("memory of a reply was not freed", "peer", r.peer, "error", err)
		}
	}
}
