package peers

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Queue passes values of peers between goroutines. Make it with NewQueue. All methods may
// be called from any goroutine.
type Queue[T any] struct {
	arrived chan struct{} // holds one when there may be values
	closing chan struct{}

	mu     sync.Mutex
	closed bool
	list   *List[T]
	left   chan struct{} // closed when a value leaves; nil when nobody waits for that

	full time.Time // since when it has been more than half full; for AwaitRoom
}

// NewQueue makes a queue with room for a number of values.
func NewQueue[T any](room int) *Queue[T] {
	return &Queue[T]{arrived: make(chan struct{}, 1), closing: make(chan struct{}), list: NewList[T](room)}
}

// Put adds a value. If there was no room, lost is the value that it replaced. The error is
// verbs.ErrClosed; then v was not added.
func (q *Queue[T]) Put(address netip.Addr, v T) (lost *Item[T], err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, verbs.ErrClosed
	}
	_, lost = q.list.Add(address, v)
	q.wake()
	return lost, nil
}

// Load returns the number of values, and the number of those of the peer that has the most. left is
// closed when a value leaves by Get; it is nil while there is room.
func (q *Queue[T]) Load() (all, most int, left <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all = q.list.Len()
	if all > 0 {
		most = q.list.most[0].size
	}
	if all < q.list.room || q.closed {
		return all, most, nil
	}
	if q.left == nil {
		q.left = make(chan struct{})
	}
	return all, most, q.left
}

// AwaitRoom leaves further values where they come from, such as the kernel, while the queue is full, for
// patience at most. So when many peers come at the same moment, they wait for their turn, and need not
// try again. Peers with more than an eighth of the queue, as many as Linux's nconnect allows, lose
// values at once, and all peers with several do when the rush lasts longer than twice that time.
// Only one goroutine may call it.
func (q *Queue[T]) AwaitRoom(patience time.Duration) {
	all, most, left := q.Load()
	room := q.list.room
	switch {
	case all <= room/2:
		q.full = time.Time{}
	case q.full.IsZero():
		q.full = time.Now()
	}
	if left == nil || most > max(room/8, 1) || most > 1 && time.Since(q.full) > 2*patience {
		return
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-left:
	case <-q.closing:
	case <-timeout.C:
	}
}

// wake has one caller of Get look.
func (q *Queue[T]) wake() {
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

// Get waits for a value and removes it. The error is verbs.ErrClosed or that of ctx. A value
// that comes after ctx has ended stays for others.
func (q *Queue[T]) Get(ctx context.Context) (v T, err error) {
	for {
		if v, ok, err := q.next(ctx); ok || err != nil {
			return v, err
		}
		select {
		case <-q.arrived:
		case <-q.closing:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// next takes a value if there is one. Of two values that came one after the other, only
// the first may have woken somebody.
func (q *Queue[T]) next(ctx context.Context) (v T, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return v, false, verbs.ErrClosed
	}
	if err = ctx.Err(); err == nil {
		v, ok = q.list.Next()
	}
	if ok && q.left != nil {
		close(q.left)
		q.left = nil
	}
	if q.list.Len() > 0 {
		q.wake()
	}
	return v, ok, err
}

// Close ends Put and Get, and returns the remaining values. Closing it twice has no effect.
func (q *Queue[T]) Close() (left []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	close(q.closing)
	for v, ok := q.list.Next(); ok; v, ok = q.list.Next() {
		left = append(left, v)
	}
	return left
}
