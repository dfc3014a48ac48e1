package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestShared: the first of many callers has a read of its own, and all others share the next one. A read goes on
// when its caller gives up.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		reads := 0
		read := func(ctx context.Context) (int, error) {
			reads++
			n := reads
			time.Sleep(time.Minute)
			return n, ctx.Err()
		}
		hasty, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer giveUp()
		got := make(chan int, 100)
		ask := func(ctx context.Context) {
			n, err := s.get(ctx, read)
			if err != nil {
				n = -1
			}
			if err != nil && (ctx != hasty || !errors.Is(err, context.DeadlineExceeded)) {
				t.Error(err)
			}
			got <- n
		}
		begun := time.Now()
		go ask(hasty)
		synctest.Wait()
		for range 50 {
			go ask(t.Context())
		}
		if n := <-got; n != -1 || time.Since(begun) != 8*time.Second {
			t.Errorf("got %d after %v", n, time.Since(begun))
		}
		for range 50 {
			if n := <-got; n != 2 {
				t.Errorf("got %d", n)
			}
		}
		go ask(t.Context())
		if n := <-got; n != 3 || time.Since(begun) != 3*time.Minute {
			t.Errorf("got %d after %v", n, time.Since(begun))
		}
	})
}
