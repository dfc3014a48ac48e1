package referee

// history is what one side said of itself over time, for the question which of
// it the other side may still have gone by. Its length is bounded.
type history[T any] struct {
	said []said[T] // in order; the first is what holds if nothing is said
	// dropped is the seq of the last value that left a full history.
	dropped uint64
	lost    bool
}

// said is a value and the seq of the message that said it.
type said[T any] struct {
	seq   uint64
	value T
}

// maxHistory is how many values of one kind are kept for a side that does not
// show that it has received them.
const maxHistory = 32

func (h *history[T]) say(seq uint64, v T) {
	if len(h.said) == maxHistory {
		h.dropped, h.lost = h.said[1].seq, true
		h.said = append(h.said[:0], h.said[1:]...)
	}
	h.said = append(h.said, said[T]{seq, v})
}

// last is the value that was said last.
func (h *history[T]) last() T { return h.said[len(h.said)-1].value }

// any says whether ok holds for a value that somebody may go by who has
// received everything up to seq since. When values have left the history it may.
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

// forget drops what is no longer needed once everything up to seq was received.
func (h *history[T]) forget(seq uint64) {
	n := 0
	for n+1 < len(h.said) && h.said[n+1].seq <= seq {
		n++
	}
	h.said = append(h.said[:0], h.said[n:]...)
}
