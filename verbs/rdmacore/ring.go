//go:build rdmacore && cgo

package rdmacore

import "github.com/rdmad/rdmad/verbs"

// completions is a queue of completions that takes memory as it fills.
type completions struct {
	buf  []verbs.WC // a power of two long
	head int
	n    int
}

func (r *completions) push(wc *verbs.WC) {
	if r.n == len(r.buf) {
		r.grow()
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = *wc
	r.n++
}

func (r *completions) grow() {
	buf := make([]verbs.WC, max(2*len(r.buf), 16))
	for i := range r.n {
		buf[i] = r.buf[(r.head+i)&(len(r.buf)-1)]
	}
	r.buf, r.head = buf, 0
}

// take moves the oldest completions to wc.
func (r *completions) take(wc []verbs.WC) int {
	n := min(len(wc), r.n)
	for i := range wc[:n] {
		wc[i] = r.buf[r.head]
		r.head = (r.head + 1) & (len(r.buf) - 1)
	}
	r.n -= n
	return n
}

// drop removes the completions of a queue pair.
func (r *completions) drop(qp uint32) {
	for range r.n {
		var wc [1]verbs.WC
		r.take(wc[:])
		if wc[0].QPNum != qp {
			r.push(&wc[0])
		}
	}
}
