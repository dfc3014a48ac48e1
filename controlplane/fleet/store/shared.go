package store

import (
	"context"
	"sync"
	"time"
)

// shared is a read that all its callers share: one is under way, and all who come meanwhile wait for the next one.
// So a client can't have etcd read all keys as often as it may ask.
type shared[T any] struct {
	mu   sync.Mutex
	next *reading[T]     // that has not begun; nil without one
	last <-chan struct{} // of the newest reading; nil before the first
}

// reading is one read.
type reading[T any] struct {
	done  chan struct{} // closed after it
	value T
	err   error
}

// get returns the result of a read that begins after the call. Others get the same, so nobody changes it. The read goes
// on when its first caller gives up.
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

// run reads once the reading before is done.
func (s *shared[T]) run(ctx context.Context, before <-chan struct{}, r *reading[T], read func(context.Context) (T, error)) {
	defer close(r.done)
	if before != nil {
		<-before
	}
	s.mu.Lock()
	s.next = nil // who comes from now on takes another one
	s.mu.Unlock()
	r.value, r.err = read(ctx)
}
