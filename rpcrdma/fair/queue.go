package fair

import "container/heap"

// scale is the virtual time of one item at weight 1.
const scale = 1 << 14

// Queue orders the work of many flows by start-time fair queueing. While flows have work,
// the items served for each are in proportion to its weight. A flow that had no work waits
// for at most one item of each other flow. The caller must lock: two goroutines must not
// use a queue or its flows at the same time.
type Queue[T any] struct {
	flows flowHeap[T] // flows with items
	now   uint64      // virtual time: the start of the last item taken
	seq   uint64
	items int
}

// Flow is the work of one connection. The zero value has weight 1.
type Flow[T any] struct {
	// Weight is the flow's weight relative to others, at least 1.
	Weight int

	items  []T // valid from first on
	first  int
	start  uint64 // virtual time at which the oldest item starts
	finish uint64 // virtual time at which the last item taken ends
	seq    uint64 // orders flows with the same start
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return q.items }

// Push adds an item after those of its flow.
func (q *Queue[T]) Push(f *Flow[T], item T) {
	f.items = append(f.items, item)
	q.items++
	if len(f.items)-f.first == 1 {
		q.seq++
		f.start, f.seq = max(q.now, f.finish), q.seq
		heap.Push(&q.flows, f)
	}
}

// Pop removes and returns the next item. ok is false if there is none.
func (q *Queue[T]) Pop() (item T, ok bool) {
	if len(q.flows) == 0 {
		return item, false
	}
	f := q.flows[0]
	item = f.take()
	q.items--
	q.now = f.start
	f.finish = f.start + scale/uint64(min(max(f.Weight, 1), scale))
	if len(f.items) == 0 {
		heap.Pop(&q.flows)
		return item, true
	}
	q.seq++
	f.start, f.seq = f.finish, q.seq
	heap.Fix(&q.flows, 0)
	return item, true
}

// take removes the oldest item. Storage is reused.
func (f *Flow[T]) take() (item T) {
	var zero T
	item, f.items[f.first] = f.items[f.first], zero
	f.first++
	switch {
	case f.first == len(f.items):
		f.items, f.first = f.items[:0], 0
	case f.first > len(f.items)/2:
		n := copy(f.items, f.items[f.first:])
		clear(f.items[n:])
		f.items, f.first = f.items[:n], 0
	}
	return item
}

// flowHeap implements heap.Interface.
type flowHeap[T any] []*Flow[T]

func (h flowHeap[T]) Len() int { return len(h) }

func (h flowHeap[T]) Less(i, j int) bool {
	if h[i].start != h[j].start {
		return h[i].start < h[j].start
	}
	return h[i].seq < h[j].seq
}

func (h flowHeap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *flowHeap[T]) Push(f any) { *h = append(*h, f.(*Flow[T])) }

func (h *flowHeap[T]) Pop() any {
	old := *h
	n := len(old) - 1
	f := old[n]
	old[n] = nil
	*h = old[:n]
	return f
}
