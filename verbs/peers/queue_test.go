package peers

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
)

// TestQueue has more values than callers, and more callers than values.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[int](10)
		for i := range 3 {
			if lost, err := q.Put(innocent, i); lost != nil || err != nil {
				t.Fatal(lost, err)
			}
		}
		var got atomic.Int32
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := q.Get(t.Context()); err == nil {
					got.Add(1)
				} else if !errors.Is(err, verbs.ErrClosed) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := got.Load(); n != 3 {
			t.Errorf("%d of 3 values were taken", n)
		}
		if _, err := q.Put(innocent, 4); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := got.Load(); n != 4 {
			t.Errorf("%d of 4 values were taken", n)
		}
		if left := q.Close(); len(left) != 0 {
			t.Errorf("%v left", left)
		}
		all.Wait()
	})
}

// TestQueueLeaves: what is left at the end, or has no room, comes back.
func TestQueueLeaves(t *testing.T) {
	q := NewQueue[int](2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing there: %v", err)
	}
	for i := range 3 {
		if lost, err := q.Put(innocent, i); err != nil || (lost != nil) != (i == 2) || lost != nil && lost.Value != 0 {
			t.Errorf("%d: %v, %v", i, lost, err)
		}
	}
	if left := q.Close(); len(left) != 2 || q.Close() != nil {
		t.Errorf("%v left", left)
	}
	if _, err := q.Put(innocent, 9); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if _, err := q.Get(t.Context()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("Get: %v", err)
	}
}

// TestLoad: callers learn how full a queue is, and when a value leaves a full one.
func TestLoad(t *testing.T) {
	q := NewQueue[int](3)
	put := func(a netip.Addr, wantAll, wantMost int) (left <-chan struct{}) {
		t.Helper()
		if _, err := q.Put(a, 0); err != nil {
			t.Fatal(err)
		}
		all, most, left := q.Load()
		if all != wantAll || most != wantMost {
			t.Errorf("%d values, %d of one peer; want %d and %d", all, most, wantAll, wantMost)
		}
		return left
	}
	if put(innocent, 1, 1) != nil || put(attacker, 2, 1) != nil {
		t.Error("full with room for another")
	}
	left := put(attacker, 3, 2)
	if left == nil || put(attacker, 3, 2) != left {
		t.Fatal("not full")
	}
	if _, err := q.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-left
	q.Close()
	if all, most, left := q.Load(); all != 0 || most != 0 || left != nil {
		t.Errorf("closed, and still %d values, %d of one peer, %v", all, most, left)
	}
}

// TestQueueAfterTheEnd: a caller whose context has ended takes nothing, and wakes another that
// waits for what it would have taken.
func TestQueueAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[int](10)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.Put(innocent, 1); err != nil {
			t.Fatal(err)
		}
		<-q.arrived // as a caller does that is woken and then ends
		if _, err := q.Get(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("took a value: %v", err)
		}
		select {
		case <-q.arrived:
		default:
			t.Error("nobody was woken")
		}
		if v, err := q.Get(t.Context()); v != 1 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
	})
}
