package referee

import "math"

// history is the values that one side announced over time. It shows which of
// them the other side may still act on. Its length is bounded.
type history[T any] struct {
	said []said[T] // in order; the first is the default
	// dropped is the seq of the value that followed the last one removed from
	// a full history.
	dropped uint64
	lost    bool
}

// said is a value and the seq of the message that announced it.
type said[T any] struct {
	seq   uint64
	value T
}

// maxHistory is how many values of one kind are kept for a side that does not
// show that it received them.
const maxHistory = 32

// either is the seq of a value that may hold in place of the one said before it, until the
// next one is said.
const either = math.MaxUint64

func (h *history[T]) say(seq uint64, v T) {
	if n := len(h.said); n > 0 && h.said[n-1].seq == either {
		h.said[n-1].seq = seq
	}
	if len(h.said) == maxHistory {
		h.dropped, h.lost = h.said[1].seq, true
		h.said = append(h.said[:0], h.said[1:]...)
	}
	h.said = append(h.said, said[T]{seq, v})
}

// last returns the newest value.
func (h *history[T]) last() T { return h.said[len(h.said)-1].value }

// other returns the value that may hold in place of the newest one, if there is one.
func (h *history[T]) other() (v T, may bool) {
	n := len(h.said)
	if n < 2 || h.said[n-1].seq != either {
		return v, false
	}
	return h.said[n-2].value, true
}

// any reports whether ok holds for a value that a side may act on after it
// received everything up to since. It reports true if such a value may have
// been removed from the history.
func (h *history[T]) any(since uint64, ok func(T) bool) bool {
	if h.lost && since < h.dropped {
		return true
	}
	for i := len(h.said) - 1; i >= 0; i-- {
		if ok(h.said[i].value) {
			return true
		}
		if h.said[i].seq <= since {
			break
		}
	}
	return false
}

// forget drops the values that no side acts on after it received everything up
// to seq.
func (h *history[T]) forget(seq uint64) {
	n := 0
	for n+1 < len(h.said) && h.said[n+1].seq <= seq {
		n++
	}
	h.said = append(h.said[:0], h.said[n:]...)
}
