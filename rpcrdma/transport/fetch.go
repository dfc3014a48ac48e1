package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// Memory for read chunks. A call's chunks lie in one buffer, so that nobody
// waits for memory while holding some for another chunk.
const (
	// chunkAlign is the alignment of each chunk in it.
	chunkAlign = 64
	// maxFetching bounds the read chunks of one connection, in bytes, so that
	// a peer that stalls RDMA Reads leaves memory for others. Calls beyond it
	// wait for those before them.
	maxFetching = 16 * conn.MaxMessage
)

func align(n int) int { return (n + chunkAlign - 1) &^ (chunkAlign - 1) }

// fetch gets memory for a call's read chunks and posts the RDMA Reads, now or
// when there is memory.
func (r *Responder) fetch(c *call) {
	c.layOut()
	c.queueing.fetching(r.active)
	if r.waiting.len() > 0 || r.fetching+c.size > maxFetching {
		c.queueing.late = true
		r.waiting.push(c)
		return
	}
	r.fetchNow(c)
}

// layOut works out how much memory a call's chunks take.
func (c *call) layOut() {
	c.size = 0
	for i := range c.call.Reads.Chunks {
		c.size = align(c.size) + c.call.Reads.Chunks[i].Length
	}
}

// fetchNow has its turn on this connection. A goroutine waits for memory if
// the pool has none.
func (r *Responder) fetchNow(c *call) {
	r.fetching += c.size
	if c.fetched = r.host.tryTake(r.shares.fetches, c.size, regmem.Fetch); c.fetched != nil {
		r.postReads(c)
		return
	}
	c.queueing.late = true
	r.busy.Go(func() {
		b, err := r.host.take(r.ctx, r.shares.fetches, c.size, regmem.Fetch)
		r.mu.Lock()
		defer r.mu.Unlock()
		c.fetched = b
		switch {
		case r.dead: // freed with the rest
			return
		case err != nil:
			r.fetching -= c.size
			r.acts = r.core.NoMemory(c.call, r.acts)
			r.nextFetch()
		default:
			r.postReads(c)
		}
		r.carryOut()
	})
}

// postReads posts the RDMA Reads of a call whose memory is there. Chunks
// without bytes need none.
func (r *Responder) postReads(c *call) {
	c.queueing.fetched()
	mem, off := c.fetched.Bytes(), 0
	for i := range c.call.Reads.Chunks {
		off = align(off)
		n := c.call.Reads.Chunks[i].Length
		c.parts = append(c.parts, mem[off:off+n:off+n])
		off += n
	}
	if len(c.call.Fetches) == 0 {
		r.acts = r.core.Fetched(c.call, c.parts, r.acts)
		return
	}
	r.stats.RoundTrips++
	o := r.sq.newOp(opFetch, c.call.Index)
	o.signal = true
	if err := r.prepareSink(o, c.fetched, c.size); err != nil {
		r.sq.recycle(o)
		r.dieLocked(err)
		return
	}
	off, k := 0, 0
	for _, f := range c.call.Fetches {
		for ; k < f.Chunk; k++ {
			off = align(off + c.call.Reads.Chunks[k].Length)
		}
		o.wrs = append(o.wrs, verbs.SendWR{
			Op: verbs.OpRDMARead, SGL: o.sgl(o.sinkOf(c.fetched, off+f.Off, f.Length)),
			RemoteAddr: f.Addr, RKey: f.RKey,
		})
		r.stats.RDMAReads++
		r.stats.BytesReceived += uint64(f.Length)
	}
	r.submit(o)
}

// releaseFetched gives the memory of the read chunks back.
func (c *call) releaseFetched() {
	if c.fetched == nil {
		return
	}
	c.fetched.Release()
	c.fetched = nil
	clear(c.parts)
	c.parts = c.parts[:0]
	c.r.fetching -= c.size
}

// nextFetch lets calls go on that waited for others to release memory.
func (r *Responder) nextFetch() {
	for r.waiting.len() > 0 && r.fetching+r.waiting.peek().size <= maxFetching {
		r.fetchNow(r.waiting.pop())
	}
}
