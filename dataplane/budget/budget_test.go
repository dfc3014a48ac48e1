package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// TestBudgetInTurn has a large request wait before small ones, which then wait
// too although there would be enough for them.
func TestBudgetInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		if err := b.Acquire(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		granted := make(chan int64, 3)
		ask := func(n int64) {
			go func() {
				if err := b.Acquire(context.Background(), n); err == nil {
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
		b.Release(4)
		synctest.Wait()
		if len(granted) != 2 || <-granted+<-granted != 10 {
			t.Fatal("not 8 and 2 were granted")
		}
		b.Release(8)
		if n := <-granted; n != 1 || b.out != 3 {
			t.Fatalf("granted %d, %d out", n, b.out)
		}
	})
}

func TestBudgetCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(4)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 2)
		if err := b.Acquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
		go func() { result <- b.Acquire(ctx, 4) }()
		synctest.Wait()
		go func() { result <- b.Acquire(context.Background(), 3) }()
		synctest.Wait()
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Fatalf("first: %v", err)
		}
		if err := <-result; err != nil {
			t.Fatalf("second, which fits when the first is gone: %v", err)
		}
		if out, waiting := b.Used(); out != 4 || waiting != 0 {
			t.Errorf("%d out, %d waiting", out, waiting)
		}
	})
}

func TestBudgetDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(6)
		if err := b.Acquire(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		b.SetLimit(4)
		granted := make(chan struct{})
		go func() {
			if b.Acquire(context.Background(), 1) == nil {
				close(granted)
			}
		}()
		b.Release(2)
		synctest.Wait()
		select {
		case <-granted:
			t.Fatal("granted with nothing left")
		default:
		}
		b.Release(1)
		<-granted
		if b.out != 4 {
			t.Errorf("%d out", b.out)
		}
	})
}

// TestBudgetUnderLoad has many take and cancel at once; what is out is never
// over the limit, and all of it comes back.
func TestBudgetUnderLoad(t *testing.T) {
	const limit = 16
	b := New(limit)
	var mu sync.Mutex
	out := int64(0)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := int64((worker*7+i)%limit + 1)
				ctx, cancel := context.WithCancel(context.Background())
				if i%5 == 0 {
					go cancel()
				}
				if b.Acquire(ctx, n) == nil {
					mu.Lock()
					if out += n; out > limit {
						t.Errorf("%d out", out)
					}
					mu.Unlock()
					mu.Lock()
					out -= n
					mu.Unlock()
					b.Release(n)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if out, waiting := b.Used(); out != 0 || waiting != 0 {
		t.Errorf("%d out, %d waiting", out, waiting)
	}
}

// TestBudget: who waits is served in turn, a large one before a small one that
// came later, and who gives up leaves no hole.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		if err := b.Acquire(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int64
		wait := func(ctx context.Context, n int64) {
			go func() {
				err := b.Acquire(ctx, n)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					n = -n
				}
				order = append(order, n)
			}()
			synctest.Wait()
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		wait(ctx, 9)
		wait(t.Context(), 5)
		wait(t.Context(), 1)
		cancel(gone)
		synctest.Wait()
		b.Release(6)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 3 || order[0] != -9 || order[1]+order[2] != 6 || b.out != 6 {
			t.Errorf("order %v, %d out", order, b.out)
		}
	})
}

// TestBudgetLimit: a limit that falls lets nobody starve, one that rises lets
// those go who wait.
func TestBudgetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(4)
		for range 4 {
			if err := b.Acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		b.SetLimit(2)
		done := make(chan struct{})
		go func() {
			if err := b.Acquire(t.Context(), 1); err != nil {
				t.Error(err)
			}
			close(done)
		}()
		synctest.Wait()
		b.Release(2)
		synctest.Wait()
		select {
		case <-done:
			t.Error("over the limit")
		default:
		}
		b.SetLimit(3)
		<-done
		if b.out != 3 {
			t.Errorf("%d out", b.out)
		}
		if err := b.Acquire(canceled(t), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("over the limit with a context that has ended: %v", err)
		}
		b.Release(3)
		if err := b.Acquire(t.Context(), 5); err != nil { // over the limit, but alone
			t.Error(err)
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
