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
