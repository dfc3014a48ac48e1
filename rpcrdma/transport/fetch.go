package transport

import (
	"time"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// Memory for read chunks. All chunks of a message are in one buffer, so no message waits for
// memory for one chunk while it holds memory for another.
const (
	// chunkAlign is the alignment of each chunk in the buffer, in bytes.
	chunkAlign = 64
	// maxFetching limits the read chunks of one connection, in bytes, so that a peer that
	// stalls RDMA Reads leaves memory for others. Further messages wait for earlier ones.
	maxFetching = 16 * conn.MaxMessage

	// readStep is how many bytes one op reads of a message that has at least twice as many and
	// does not come alone. When the first half of a message has come, the Reads of the next are
	// posted.
	readStep = 512 << 10
	// readWindow is how many bytes of a connection are read at one time while Reads end soon:
	// the second half of one message and the whole next one. A processor that copies the
	// data then finds the memory of earlier messages in its caches, and the peer always
	// has a Read to answer.
	readWindow = 2*conn.MaxMessage - readStep
	// The Reads of a message end soon if they take no longer than soon, and as long again for
	// each window of bytes that are read before them. So a connection that waits for the window
	// reads about 1 GB/s or more. farReads messages in a row that take longer show that the peer
	// is far away, or slow: then all messages are read at once. After farTime more messages the
	// window is tried again.
	soon     = time.Millisecond
	farReads = 4
	farTime  = 256
)

func align(n int) int { return (n + chunkAlign - 1) &^ (chunkAlign - 1) }

// fetch holds the memory of a message's read chunks, and the RDMA Reads that fill it. The
// message is a call, a reply, or a long message that may be either.
type fetch struct {
	owner  fetcher
	list   *chunk.ReadList
	reads  []chunk.Read // they fill the memory for list.Chunks
	buf    *regmem.Buffer
	size   int       // length of all chunks in bytes; 0 while they don't count for the connection
	parts  [][]byte  // each chunk's part of buf
	step   int       // bytes of an op, if the owner chooses them. With several ops there is no sink
	left   int       // ops that have not ended
	queued bool      // it waited for room in the window
	by     time.Time // the Reads end soon if they end by then; zero if the window had no room for them
}

// fetcher is the message that a fetch belongs to. link.mu is held when its methods are
// called.
type fetcher interface {
	// late: the fetch has to wait for memory.
	late()
	// behind: the fetch waits for RDMA Reads of other messages.
	behind()
	// reading: the fetch has its memory.
	reading()
	// posted: the RDMA Reads are posted.
	posted()
	// read: n bytes more have been read.
	read(n int)
	// fetched: all RDMA Reads have completed.
	fetched()
	// unfetched: there was no memory.
	unfetched(err error)
}

// fetch gets memory for read chunks and posts the RDMA Reads, now or once there is memory.
// The chunks of a long message were read earlier.
func (l *link) fetch(f *fetch) {
	if l.early != nil {
		l.takeEarly(f)
		return
	}
	size := f.layOut()
	if l.waiting.len() > 0 || l.fetching+size > maxFetching {
		f.owner.late()
		l.waiting.push(f)
		return
	}
	l.fetchNow(f)
}

// layOut returns how much memory the chunks need, in bytes.
func (f *fetch) layOut() (size int) {
	for i := range f.list.Chunks {
		size = align(size) + f.list.Chunks[i].Length
	}
	return size
}

// fetchNow starts a fetch for which the connection may have memory, or leaves it until there
// is room in the window.
func (l *link) fetchNow(f *fetch) {
	f.size = f.layOut()
	l.fetching += f.size
	if f.queued = l.ahead.len() > 0 || !l.mayRead(f); f.queued {
		f.owner.behind()
		l.ahead.push(f)
		return
	}
	l.read(f)
}

// mayRead reports whether the window has room for f.
func (l *link) mayRead(f *fetch) bool { return l.fits(f) || l.far >= farReads }

func (l *link) fits(f *fetch) bool { return l.reading == 0 || l.reading+f.size <= readWindow }

// read gets memory for a fetch whose turn on this connection has come, and posts its Reads.
// If the pool has no memory, a goroutine waits for it.
func (l *link) read(f *fetch) {
	if f.buf = l.host.tryTake(l.shares.fetches, f.size, regmem.Fetch); f.buf != nil {
		l.postReads(f)
		return
	}
	f.owner.late()
	l.busy.Go(func() {
		b, err := l.host.take(l.ctx, l.shares.fetches, f.size, regmem.Fetch)
		l.mu.Lock()
		defer l.mu.releaseAndPost()
		f.buf = b
		switch {
		case l.dead: // freed with the rest
		case err != nil:
			l.releaseFetch(f)
			f.owner.unfetched(err)
		default:
			l.postReads(f)
		}
	})
}

// postReads posts the RDMA Reads of a message that has its memory. Empty chunks need none.
func (l *link) postReads(f *fetch) {
	f.owner.reading()
	mem, off := f.buf.Bytes(), 0
	for i := range f.list.Chunks {
		off = align(off)
		n := f.list.Chunks[i].Length
		f.parts = append(f.parts, mem[off:off+n:off+n])
		off += n
	}
	if len(f.reads) == 0 {
		f.owner.fetched()
		return
	}
	o := l.newFetchOp(f)
	if err := l.prepareSink(o, f.buf, f.size); err != nil {
		l.sq.recycle(o)
		l.dieLocked(err)
		return
	}
	if f.by = (time.Time{}); l.fits(f) {
		f.by = time.Now().Add(soon + soon*time.Duration(l.reading)/readWindow)
	}
	step := f.step
	if step == 0 && (f.queued || l.reading > 0) && f.size >= 2*readStep && !l.host.attr.ReadSinkRemoteWrite {
		step = readStep
	}
	off, k, room := 0, 0, step
	for _, r := range f.reads {
		for ; k < r.Chunk; k++ {
			off = align(off + f.list.Chunks[k].Length)
		}
		for r.Length > 0 {
			if room == 0 && step > 0 {
				l.submit(o)
				o, room = l.newFetchOp(f), step
			}
			n := r.Length
			if step > 0 {
				n = min(n, room)
			}
			o.wrs = append(o.wrs, verbs.SendWR{
				Op: verbs.OpRDMARead, SGL: o.sgl(o.sinkOf(f.buf, off+r.Off, n)),
				RemoteAddr: r.Addr, RKey: r.RKey,
			})
			l.stats.RDMAReads++
			l.stats.BytesReceived += uint64(n)
			l.reading += n
			room -= n
			r.Off, r.Addr, r.Length = r.Off+n, r.Addr+uint64(n), r.Length-n
		}
	}
	l.submit(o)
	f.owner.posted()
}

// newFetchOp returns an op for RDMA Reads of f.
func (l *link) newFetchOp(f *fetch) *op {
	o := l.sq.newOp(opFetch, 0)
	o.fetch, o.signal = f, true
	f.left++
	return o
}

// fetchEnded is called when an op of RDMA Reads has ended.
func (l *link) fetchEnded(o *op) {
	f, n := o.fetch, length(o.wrs)
	f.left--
	l.reading -= n
	f.owner.read(n)
	if f.left == 0 {
		l.judge(f)
		f.owner.fetched()
	}
	for !l.dead && l.ahead.len() > 0 && l.mayRead(l.ahead.peek()) {
		l.read(l.ahead.pop())
	}
}

// judge finds out from a message that was read whether the peer is far away. A message for which
// the window had no room does not show it: from a far peer, too, much may come in one round trip.
func (l *link) judge(f *fetch) {
	tells := !f.by.IsZero()
	switch {
	case tells && !l.now.After(f.by):
		l.far = 0
	case l.far >= farReads+farTime:
		l.far = farReads - 1
	case tells || l.far >= farReads:
		l.far++
	}
}

// releaseFetch releases the memory of read chunks, unless it was passed on. Waiting
// messages of this connection may then continue.
func (l *link) releaseFetch(f *fetch) {
	if f.buf != nil {
		f.buf.Release()
		f.buf = nil
	}
	clear(f.parts)
	f.parts = f.parts[:0]
	l.fetching -= f.size
	f.size = 0
	for !l.dead && l.waiting.len() > 0 && l.fetching+l.waiting.peek().layOut() <= maxFetching {
		l.fetchNow(l.waiting.pop())
	}
}
