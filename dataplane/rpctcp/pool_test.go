package rpctcp

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
)

func TestPoolClasses(t *testing.T) {
	p := newPool(8<<20, 1<<20+1)
	for _, c := range []struct{ n, size int }{
		{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {65536, 65536}, {1 << 20, 1 << 20}, {1<<20 + 1, 2 << 20},
	} {
		b, err := p.get(t.Context(), c.n)
		if err != nil || len(b.Bytes()) != c.size {
			t.Fatalf("%d: %v", c.n, err)
		}
		if page := os.Getpagesize(); c.size >= page && misalignment(b.Bytes(), page) != 0 {
			t.Errorf("%d: not on a page", c.n)
		}
		b.Release()
	}
	for _, n := range []int{-1, 1<<20 + 2, 1 << 40} {
		if b, err := p.Alloc(t.Context(), n); err == nil || b != nil {
			t.Errorf("%d: %v, %v", n, b, err)
		}
	}
	if p.budget.free != 8<<20 {
		t.Errorf("%d bytes free", p.budget.free)
	}
}

func TestPoolReuses(t *testing.T) {
	p := newPool(1<<20, 4096)
	first, err := p.get(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	second, err := p.get(t.Context(), 4096)
	if err != nil || second != first {
		t.Errorf("another buffer, %v", err)
	}
	second.Release()
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(100, func() {
		if b, err := p.get(ctx, 100); err == nil {
			b.Release()
		}
	}); allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second release goes unnoticed")
		}
	}()
	second.Release()
}

// TestPoolKeepsLittle releases more than the pool may keep.
func TestPoolKeepsLittle(t *testing.T) {
	p := newPool(2*maxIdle, 1<<20)
	var out []*buffer
	for range 2 * maxIdle >> 20 {
		b, err := p.get(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	for _, b := range out {
		b.Release()
	}
	if p.kept != maxIdle || len(p.idle[classOf(1<<20)]) != maxIdle>>20 {
		t.Errorf("%d bytes kept in %d buffers", p.kept, len(p.idle[classOf(1<<20)]))
	}
}

// TestBudgetInTurn has a large request wait before small ones, which then wait
// too although there would be enough for them.
func TestBudgetInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{free: 10}
		if err := b.acquire(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		granted := make(chan int, 3)
		ask := func(n int) {
			go func() {
				if err := b.acquire(context.Background(), n); err == nil {
					granted <- n
				}
			}()
			synctest.Wait()
		}
		ask(8)
		ask(2)
		ask(1)
		if len(granted) != 0 {
			t.Fatalf("%d were granted early", len(granted))
		}
		b.release(4)
		synctest.Wait()
		if len(granted) != 2 || <-granted+<-granted != 10 {
			t.Fatal("not 8 and 2 were granted")
		}
		b.release(8)
		if n := <-granted; n != 1 || b.free != 7 {
			t.Fatalf("granted %d, %d free", n, b.free)
		}
	})
}

func TestBudgetCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{free: 4}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 2)
		go func() { result <- b.acquire(ctx, 5) }()
		synctest.Wait()
		go func() { result <- b.acquire(context.Background(), 4) }()
		synctest.Wait()
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Fatalf("first: %v", err)
		}
		if err := <-result; err != nil {
			t.Fatalf("second, which fits when the first is gone: %v", err)
		}
		if b.free != 0 || len(b.waiting) != 0 {
			t.Errorf("%d free, %d waiting", b.free, len(b.waiting))
		}
	})
}

func TestBudgetDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{free: 4}
		b.force(6)
		granted := make(chan struct{})
		go func() {
			if b.acquire(context.Background(), 1) == nil {
				close(granted)
			}
		}()
		b.release(2)
		synctest.Wait()
		select {
		case <-granted:
			t.Fatal("granted with nothing left")
		default:
		}
		b.release(1)
		<-granted
		if b.free != 0 {
			t.Errorf("%d free", b.free)
		}
	})
}

// TestBudgetUnderLoad has many take and cancel at once; what is out is never
// over the limit, and all of it comes back.
func TestBudgetUnderLoad(t *testing.T) {
	const limit = 16
	b := budget{free: limit}
	var mu sync.Mutex
	out := 0
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := (worker*7+i)%limit + 1
				ctx, cancel := context.WithCancel(context.Background())
				if i%5 == 0 {
					go cancel()
				}
				if b.acquire(ctx, n) == nil {
					mu.Lock()
					if out += n; out > limit {
						t.Errorf("%d out", out)
					}
					mu.Unlock()
					mu.Lock()
					out -= n
					mu.Unlock()
					b.release(n)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if b.free != limit || len(b.waiting) != 0 {
		t.Errorf("%d free, %d waiting", b.free, len(b.waiting))
	}
}
