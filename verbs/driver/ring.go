package driver

import (
	"math"
	"math/bits"

	"github.com/rdmad/rdmad/verbs"
)

// ringStart is the initial number of entries of a ring.
const ringStart = 16

// Ring is a queue of completions, oldest first. It allocates memory as it fills.
type Ring struct {
	buf  []verbs.WC
	head int // oldest
	n    int
}

// Len returns the number of completions.
func (r *Ring) Len() int { return r.n }

// Push adds a completion.
func (r *Ring) Push(wc *verbs.WC) {
	if r.n == len(r.buf) {
		r.grow(math.MaxInt)
	}
	r.put(wc)
}

// put is Push to a ring that has room. It and grow are inlined, so that the stacks of idle
// connections stay small.
func (r *Ring) put(wc *verbs.WC) {
	i := r.head + r.n
	if i >= len(r.buf) {
		i -= len(r.buf)
	}
	r.buf[i] = *wc
	r.n++
}

func (r *Ring) grow(most int) {
	buf := make([]verbs.WC, min(max(2*len(r.buf), ringStart), most))
	n := copy(buf, r.buf[r.head:])
	copy(buf[n:], r.buf[:r.head])
	r.buf, r.head = buf, 0
}

// Take moves the oldest completions to wc and returns how many.
func (r *Ring) Take(wc []verbs.WC) int {
	n := min(len(wc), r.n)
	for i := range n {
		wc[i] = r.buf[r.head]
		if r.head++; r.head == len(r.buf) {
			r.head = 0
		}
	}
	r.n -= n
	return n
}

// Drop removes the completions of a queue pair.
func (r *Ring) Drop(qp uint32) {
	kept := 0
	for i := range r.n {
		wc := r.buf[(r.head+i)%len(r.buf)]
		if wc.QPNum != qp {
			r.buf[(r.head+kept)%len(r.buf)] = wc
			kept++
		}
	}
	r.n = kept
}

// Free frees the memory of an empty ring.
func (r *Ring) Free() { r.buf, r.head = nil, 0 }

// Slots returns the number of slots of a ring for n requests that is indexed with a mask: the
// next power of two.
func Slots(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
