package peers

import (
	"container/list"
	"net/netip"
)

// List holds values of peers, up to its room, which is at least one. Make it with NewList.
// Its methods must not be called concurrently.
type List[T any] struct {
	room, size int
	added      uint64
	peers      map[netip.Addr]*list.Element
	turns      list.List // of *line[T], the peer whose turn it is first
}

// line is what the list holds of one peer.
type line[T any] struct {
	peer  netip.Addr
	items list.List // of *Item[T], oldest first
}

// Item is a value in a list.
type Item[T any] struct {
	Value T
	nth   uint64        // of all that were added
	in    *list.Element // of the list's turns
	at    *list.Element // of the line's items; nil when the item has left
}

// NewList makes a list with room for a number of values.
func NewList[T any](room int) *List[T] {
	return &List[T]{room: room, peers: make(map[netip.Addr]*list.Element)}
}

// Len returns how many values the list holds.
func (l *List[T]) Len() int { return l.size }

// Add adds a value. If there was no room, lost is the item that it replaced; otherwise nil.
func (l *List[T]) Add(address netip.Addr, v T) (added, lost *Item[T]) {
	peer := Of(address)
	in := l.peers[peer]
	if in == nil {
		in = l.turns.PushBack(&line[T]{peer: peer})
		l.peers[peer] = in
	}
	l.added++
	added = &Item[T]{Value: v, nth: l.added, in: in}
	added.at = in.Value.(*line[T]).items.PushBack(added)
	if l.size++; l.size > l.room {
		lost = l.mostly().first()
		l.Remove(lost)
	}
	return added, lost
}

// mostly returns the line of the peer that has the most, of equal ones the one with
// the oldest item. The list is not empty.
func (l *List[T]) mostly() *line[T] {
	var most *line[T]
	for e := l.turns.Front(); e != nil; e = e.Next() {
		n := e.Value.(*line[T])
		if most == nil || n.items.Len() > most.items.Len() || n.items.Len() == most.items.Len() && n.first().nth < most.first().nth {
			most = n
		}
	}
	return most
}

func (n *line[T]) first() *Item[T] { return n.items.Front().Value.(*Item[T]) }

// Remove removes an item. It returns false if the item was gone already.
func (l *List[T]) Remove(i *Item[T]) bool {
	if i.at == nil {
		return false
	}
	n := i.in.Value.(*line[T])
	n.items.Remove(i.at)
	i.at = nil
	if l.size--; n.items.Len() == 0 {
		l.turns.Remove(i.in)
		delete(l.peers, n.peer)
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
	i := e.Value.(*line[T]).first()
	l.turns.MoveToBack(e)
	l.Remove(i)
	return i.Value, true
}
