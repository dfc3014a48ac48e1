package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// receives are the receive buffers of a connection, told apart by index. Each
// begins in its memory where its target segments, if it has any, are pages
// (placement.Start): one scatter entry takes what was placed to its page, and a
// plain message still is one run of bytes.
type receives struct {
	qp   verbs.QP
	pool *regmem.Pool
	size int // bytes of each
	bufs []*regmem.Buffer
	free []uint32 // indexes without a buffer
	wr   [1]verbs.RecvWR
	sge  [1]verbs.SGE
}

// receiveID marks the IDs of receives.
const receiveID = 1 << 63

// post posts n receives more and says how many could be had.
func (r *receives) post(n int) (int, error) {
	for i := range n {
		b := r.pool.TryAlloc(r.start()+r.size, regmem.Receive)
		if b == nil {
			return i, nil
		}
		var at uint32
		if k := len(r.free); k > 0 {
			at, r.free = r.free[k-1], r.free[:k-1]
			r.bufs[at] = b
		} else {
			at = uint32(len(r.bufs))
			r.bufs = append(r.bufs, b)
		}
		if err := r.repost(at); err != nil {
			return i, err
		}
	}
	return n, nil
}

// repost posts the receive at once more.
func (r *receives) repost(at uint32) error {
	r.sge[0] = r.bufs[at].SGE(r.start(), r.size)
	r.wr[0] = verbs.RecvWR{ID: receiveID | uint64(at), SGL: r.sge[:]}
	_, err := r.qp.PostRecv(r.wr[:])
	return err
}

// drop gives the memory of the receive at back.
func (r *receives) drop(at uint32) {
	r.bufs[at].Release()
	r.bufs[at] = nil
	r.free = append(r.free, at)
}

// bytes are the first n bytes of the receive at.
func (r *receives) bytes(at uint32, n int) []byte {
	start := r.start()
	return r.bufs[at].Bytes()[start : start+n : start+n]
}

// start is where in its memory a receive begins. It takes no larger memory.
func (r *receives) start() int {
	if r.size < placement.LeastSize {
		return 0
	}
	return placement.Start(r.size)
}

// releaseAll gives all memory back, once the queue pair is gone.
func (r *receives) releaseAll() {
	for i, b := range r.bufs {
		if b != nil {
			b.Release()
			r.bufs[i] = nil
		}
	}
}
