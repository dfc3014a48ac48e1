package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// receives holds the receive buffers of a connection, by index. Each begins in its memory
// so that its target segments, if it has any, are whole pages (placement.Start). Then one
// scatter entry places items into pages, and a plain message is still one run of bytes.
type receives struct {
	qp   verbs.QP
	pool *regmem.Pool
	size int // size of each receive posted from now on, in bytes
	// structured is the size of the first receive that had target segments.
	structured int
	bufs       []receive
	free       []uint32 // indexes without a buffer
	first      int      // receives that count as the connection's first
	divided    bool     // the adaptive policy divides receives

	below int  // receives that are smaller than size, posted or not
	tells bool // grown must report when below becomes 0
	wr    [1]verbs.RecvWR
	sge   [1]verbs.SGE
}

type receive struct {
	buf  *regmem.Buffer // nil: its index is free
	size int            // in bytes
}

// firstReceives is the number of receives that every connection may have, whatever others
// hold. Under the adaptive policy, the policy guarantees this.
const firstReceives = credit.Initial + credit.Slack

// receiveID marks the work request IDs of receives.
const receiveID = 1 << 63

// post posts n more receives and returns how many there was memory for.
func (r *receives) post(n int) (int, error) {
	for i := range n {
		use := regmem.Extra
		switch {
		case r.first < firstReceives:
			use = regmem.Receive
		case r.divided:
			use = regmem.Divided
		}
		b := r.pool.TryAlloc(r.start(r.size)+r.size, use)
		if b == nil {
			return i, nil
		}
		if use == regmem.Receive {
			r.first++
		}
		at := uint32(len(r.bufs))
		if k := len(r.free); k > 0 {
			at, r.free = r.free[k-1], r.free[:k-1]
		} else {
			r.bufs = append(r.bufs, receive{})
		}
		r.bufs[at] = receive{buf: b, size: r.size}
		if err := r.repost(at); err != nil {
			return i, err
		}
	}
	return n, nil
}

// repost posts the receive at again.
func (r *receives) repost(at uint32) error {
	v := &r.bufs[at]
	if v.size != r.size {
		r.renew(v)
	}
	r.sge[0] = v.buf.SGE(r.start(v.size), v.size)
	r.wr[0] = verbs.RecvWR{ID: receiveID | uint64(at), SGL: r.sge[:]}
	_, err := r.qp.PostRecv(r.wr[:])
	return err
}

// bytes returns the first n bytes of the receive at.
func (r *receives) bytes(at uint32, n int) []byte {
	v := &r.bufs[at]
	start := r.start(v.size)
	return v.buf.Bytes()[start : start+n : start+n]
}

// drop frees the memory of the receive at.
func (r *receives) drop(at uint32) {
	if r.bufs[at].size < r.size {
		r.below--
	}
	if r.bufs[at].buf.Use() == regmem.Receive {
		r.first--
	}
	r.bufs[at].buf.Release()
	r.bufs[at] = receive{}
	r.free = append(r.free, at)
}

// start returns the offset at which a receive of size bytes begins in its memory. All
// receives with target segments use the offset of the first such size, which may be
// announced to the peer. That size needs no larger memory for it.
func (r *receives) start(size int) int {
	if size < placement.LeastSize {
		return 0
	}
	if r.structured == 0 {
		r.structured = size
	}
	return placement.Start(r.structured)
}

// releaseAll frees all memory, once the queue pair is destroyed.
func (r *receives) releaseAll() {
	for i := range r.bufs {
		if v := &r.bufs[i]; v.buf != nil {
			v.buf.Release()
			*v = receive{}
		}
	}
}
