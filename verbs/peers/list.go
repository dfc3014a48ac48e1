package peers

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// List holds values of peers, up to its room, which is at least one. Make it with NewList.
// Its methods must not be called concurrently. Each takes time for the logarithm of the number of
// peers, because peers decide how many they are.
type List[T any] struct {
	room, size int
	added      uint64
	peers      map[netip.Addr]*line[T]
	turns      list.List // of *line[T], the peer whose turn it is first
	most       lines[T]  // the peer that has the most first
}

// line is what the list holds of one peer.
type line[T any] struct {
	peer        netip.Addr
	size        int
	first, last *Item[T]
	turn        *list.Element // of the list's turns
	index       int           // in the list's most
}

// Item is a value in a list.
type Item[T any] struct {
	Value      T
	nth        uint64   // of all that were added
	at         *line[T] // nil when the item has left
	prev, next *Item[T]
}

// NewList makes a list with room for a number of values.
func NewList[T any](room int) *List[T] {
	return &List[T]{room: room, peers: make(map[netip.Addr]*line[T])}
}

// Len returns how many values the list holds.
func (l *List[T]) Len() int { return l.size }

// Add adds a value. If there was no room, lost is the item that it replaced; otherwise nil.
func (l *List[T]) Add(address netip.Addr, v T) (added, lost *Item[T]) {
	peer := Of(address)
	n := l.peers[peer]
	if n == nil {
		n = &line[T]{peer: peer}
		n.turn = l.turns.PushBack(n)
		l.peers[peer] = n
	}
	l.added++
	added = &Item[T]{Value: v, nth: l.added, at: n, prev: n.last}
	n.append(added)
	if n.size == 1 {
		heap.Push(&l.most, n)
	} else {
		heap.Fix(&l.most, n.index)
	}
	if l.size++; l.size > l.room {
		lost = l.most[0].first
		l.Remove(lost)
	}
	return added, lost
}

// Remove removes an item. It returns false if the item was gone already.
func (l *List[T]) Remove(i *Item[T]) bool {
	n := i.at
	if n == nil {
		return false
	}
	l.size--
	if n.size == 1 {
		heap.Remove(&l.most, n.index)
		l.turns.Remove(n.turn)
		delete(l.peers, n.peer)
	}
	if n.remove(i); n.size > 0 {
		heap.Fix(&l.most, n.index)
	}
	return true
}

// Next removes and returns the oldest value of the peer whose turn it is. It returns false
// if the list is empty.
func (l *List[T]) Next() (v T, ok bool) {
	e := l.turns.Front()
	if e == nil {
		return v, false
	}
	i := e.Value.(*line[T]).first
	l.turns.MoveToBack(e)
	l.Remove(i)
	return i.Value, true
}

func (n *line[T]) append(i *Item[T]) {
	if n.last = i; i.prev == nil {
		n.first = i
	} else {
		i.prev.next = i
	}
	n.size++
}

func (n *line[T]) remove(i *Item[T]) {
	if i.prev == nil {
		n.first = i.next
	} else {
		i.prev.next = i.next
	}
	if i.next == nil {
		n.last = i.prev
	} else {
		i.next.prev = i.prev
	}
	i.at, i.prev, i.next = nil, nil, nil
	n.size--
}

// lines is a heap. The line with the most items is first, of equal ones the one with the oldest
// item. It implements heap.Interface.
type lines[T any] []*line[T]

func (h lines[T]) Len() int { return len(h) }

func (h lines[T]) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.size > b.size || a.size == b.size && a.first.nth < b.first.nth
}

func (h lines[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *lines[T]) Push(n any) {
	n.(*line[T]).index = len(*h)
	*h = append(*h, n.(*line[T]))
}

func (h *lines[T]) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
