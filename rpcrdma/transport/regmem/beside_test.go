package regmem

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestHolderGoesFirst: a caller that holds buffers does not wait for a caller that waits for these. It gets the free
// memory, and an error if there is not enough.
func TestHolderGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, MinLimit)
		all, held := takeAll(pool, 1<<20, Service), int64(0)
		for _, b := range all {
			held += int64(len(b.Bytes()))
		}
		done := make(chan error)
		go func() {
			b, err := pool.Alloc(t.Context(), 1<<20, Service)
			if err == nil {
				b.Release()
			}
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		b, err := pool.AllocBeside(ctx, 1<<16, Service, 0, held)
		must(t, err)
		b.Release()
		if _, err := pool.AllocBeside(ctx, 1<<20, Service, 0, held); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		for _, b := range all {
			b.Release()
		}
		must(t, <-done)
	})
}

// TestBeyondTheLimit: a request that is beyond the limit together with its caller's buffers does not wait for those of
// others.
func TestBeyondTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, MinLimit)
		all := takeAll(pool, 1<<20, Service)
		held := int64(len(all)) << 20
		all = append(all, pool.TryAlloc(1024, Service)) // another's
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := pool.AllocBeside(ctx, 1<<20, Service, 0, held); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		for _, b := range all {
			b.Release()
		}
	})
}

// TestBeyondALoweredLimit: a request that waits and is beyond the limit once that is lowered fails then.
func TestBeyondALoweredLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, 2*MinLimit)
		others := pool.TryAlloc(1<<19, Service)
		defer others.Release()
		held := int64(0)
		for _, size := range []int{1 << 20, 1 << 16} {
			for held+int64(size) <= 2*MinLimit-1<<20 {
				b := pool.TryAlloc(size, Service)
				defer b.Release()
				held += int64(size)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			b, err := pool.AllocBeside(ctx, 1<<20, Service, 0, held)
			if err == nil {
				b.Release()
			}
			failed <- err
		}()
		synctest.Wait()
		if len(failed) > 0 {
			t.Error("it does not wait")
		}
		pool.SetLimit(MinLimit)
		if err := <-failed; !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}
