package store

import (
	"context"
	"sync"
	"time"
)

// shared is a read that its callers share. While one is under way, all callers that come wait for the next one.
// So a client that asks often does not make etcd read all keys each time.
type shared[T any] struct {
	mu   sync.Mutex
	next *reading[T]     // has not begun; nil without one
	last <-chan struct{} // done of the newest reading; nil before the first
}

// reading is one read.
type reading[T any] struct {
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

// get returns the result of a read that begins after the call. Other callers get the same value, so no caller may
// change it. The read continues when its first caller gives up.
func (s *shared[T]) get(ctx context.Context, read func(context.Context) (T, error)) (none T, err error) {
	s.mu.Lock()
	r := s.next
	if r == nil {
		r = &reading[T]{done: make(chan struct{})}
		go s.run(context.WithoutCancel(ctx), s.last, r, read)
		s.next, s.last = r, r.done
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, share(ctx, time.Hour))
	defer cancel()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// run reads when the reading before it is done.
func (s *shared[T]) run(ctx context.Context, before <-chan struct{}, r *reading[T], read func(context.Context) (T, error)) {
	defer close(r.done)
	if before != nil {
		<-before
	}
	s.mu.Lock()
	s.next = nil // callers from now on take another reading
	s.mu.Unlock()
	r.value, r.err = read(ctx)
}
