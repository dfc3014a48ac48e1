package regmem

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// othersTakeAll makes others have all memory of the process that is not kept, until the test's end.
func othersTakeAll(t *testing.T) {
	t.Helper()
	const room = 64 << 20
	s := offheap.Read()
	offheap.SetLimit(s.Used + s.Kept + room)
	others, err := offheap.Alloc(room)
	must(t, err)
	t.Cleanup(func() {
		offheap.SetLimit(math.MaxInt64)
		others.Free()
	})
}

// withReserve makes a pool with a reserve.
func withReserve(t *testing.T, r *Reserve) *Pool {
	pool := newPool(t, 64<<20)
	pool.SetReserve(r)
	return pool
}

// TestReserve: while others have all memory, calls are read and answered one after the other. Data that was read
// is not in the memory for replies.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReserve()
		t.Cleanup(r.Close)
		pool := withReserve(t, r)
		othersTakeAll(t)
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				data, err := pool.Alloc(t.Context(), MaxBuffer, Fetch)
				if err != nil {
					t.Error(err)
					return
				}
				mebibyte(t, pool).Release()
				data.Release()
			})
		}
		calls.Wait()
		if pool.TryAlloc(1<<20, Service) != nil {
			t.Error("a request that need not go on uses the reserve")
		}
	})
}

// TestCallReserve: while others have all memory, calls of several pools are made one after the other, also if each of
// them has a part of its memory.
func TestCallReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pools, depth = 3, 4
		r := NewCallReserve()
		t.Cleanup(r.Close)
		short := make(chan struct{})
		var begun, calls sync.WaitGroup
		begun.Add(pools * depth)
		for range pools {
			pool, gathers := withReserve(t, r), make(chan struct{}, 1)
			for i := range depth {
				calls.Go(func() {
					var all []*Buffer
					take := func(b *Buffer, err error) {
						if err != nil {
							t.Error(err)
							return
						}
						all = append(all, b)
					}
					if i%2 == 0 {
						take(pool.Alloc(t.Context(), 1<<20, Service))
					}
					begun.Done()
					<-short
					if i%2 == 1 {
						take(pool.Alloc(t.Context(), 1<<20, Service))
					}
					gathers <- struct{}{}
					take(pool.AllocBeside(t.Context(), MaxBuffer, Service, 0, 0))
					take(pool.AllocBeside(t.Context(), MaxBuffer, Service, 1<<20, 1<<20))
					<-gathers
					for _, b := range all {
						b.Release()
					}
				})
			}
		}
		begun.Wait()
		othersTakeAll(t)
		close(short)
		calls.Wait()
		if len(r.turn) == 0 {
			t.Error("a pool keeps the reserve")
		}
	})
}

// TestGiveWay: a pool whose calls overlap does not keep the reserve from others.
func TestGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewCallReserve()
		t.Cleanup(r.Close)
		busy, other := withReserve(t, r), withReserve(t, r)
		othersTakeAll(t)
		busy.GiveWay(t.Context(), time.Hour) // nobody uses it
		first := mebibyte(t, busy)
		busy.GiveWay(t.Context(), time.Hour) // nobody else wants it
		got := make(chan struct{})
		go func() {
			mebibyte(t, other).Release()
			close(got)
		}()
		synctest.Wait()
		begun := time.Now()
		busy.GiveWay(t.Context(), time.Second)
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("it waits %v while a call has memory", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		busy.GiveWay(ctx, time.Hour)
		other.GiveWay(t.Context(), time.Hour) // it has nothing of it
		go func() {
			time.Sleep(time.Second)
			first.Release()
		}()
		busy.GiveWay(t.Context(), time.Hour)
		<-got
		if waited := time.Since(begun); waited != 2*time.Second {
			t.Errorf("another pool has the reserve after %v", waited)
		}
		mebibyte(t, busy).Release()
		if n := r.wanted.Load(); n != 0 {
			t.Errorf("%d requests want the reserve", n)
		}
	})
}

// TestReadReply: a reply that is read has its part of the reserve, also while calls have all the rest of it.
func TestReadReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewCallReserve()
		t.Cleanup(r.Close)
		pool := withReserve(t, r)
		othersTakeAll(t)
		soon, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var all []*Buffer
		for range 2 {
			for _, held := range []int64{-1, 0} {
				b, err := pool.AllocBeside(soon, MaxBuffer, Service, 0, held)
				must(t, err)
				all = append(all, b)
			}
		}
		b, err := pool.Alloc(soon, MaxBuffer, Fetch)
		if err != nil {
			t.Error(err)
		} else {
			b.Release()
		}
		for _, b := range all {
			b.Release()
		}
	})
}

// TestAnswerBesideLongCall: a call to the client for which the reserve has too little does not keep answers waiting,
// for which it has enough.
func TestAnswerBesideLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReserve()
		t.Cleanup(r.Close)
		pool := withReserve(t, r)
		othersTakeAll(t)
		ctx, cancel := context.WithCancel(t.Context())
		var call sync.WaitGroup
		call.Go(func() {
			if b, err := pool.AllocBeside(ctx, 1<<20, Service, 0, 0); err == nil {
				b.Release()
				t.Error("there is memory")
			}
		})
		synctest.Wait()
		soon, over := context.WithTimeout(t.Context(), time.Hour)
		defer over()
		for range 2 {
			if b, err := pool.Alloc(soon, 1<<20, Service); err != nil {
				t.Error(err)
			} else {
				b.Release()
			}
		}
		cancel()
		call.Wait()
	})
}

// TestReadBesideLongCall: a call to the client for which the reserve has too little takes the turn, and a read that waited
// for the same turn gets its part of the reserve.
func TestReadBesideLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReserve()
		t.Cleanup(r.Close)
		pool := withReserve(t, r)
		othersTakeAll(t)
		<-r.turn // it is not to be had yet
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var call, read sync.WaitGroup
		call.Go(func() {
			if b, err := pool.AllocBeside(ctx, 1<<20, Service, 0, 0); err == nil {
				b.Release()
				t.Error("there is memory")
			}
		})
		synctest.Wait()
		read.Go(func() {
			if b, err := pool.Alloc(ctx, MaxBuffer, Fetch); err != nil {
				t.Error(err)
			} else {
				b.Release()
			}
		})
		synctest.Wait()
		r.turn <- struct{}{}
		read.Wait()
		cancel()
		call.Wait()
	})
}

// TestTooLittleWhileOthersFree: a call for which the reserve has too little does not fail because others free memory of
// the process at that moment.
func TestTooLittleWhileOthersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := loopback.New(loopback.Config{}).Device().AllocPD()
		must(t, err)
		pd := &heldPD{PD: inner, gate: make(chan error)}
		pool, r := New(pd, verbs.AccessLocalWrite, 64<<20), NewCallReserve()
		defer r.Close()
		pool.SetReserve(r)
		othersTakeAll(t)
		failed := make(chan error, 1)
		pd.waits.Store(true)
		go func() {
			b, err := pool.AllocBeside(t.Context(), 1<<20, Service, 0, 0)
			if err == nil {
				b.Release()
			}
			failed <- err
		}()
		synctest.Wait() // until it has the turn, and is about to get its part
		offheap.SetLimit(offheap.Read().Limit)
		pd.waits.Store(false)
		pd.gate <- offheap.ErrLimit // as if other calls had the part
		must(t, <-failed)
		must(t, pool.Close())
	})
}
