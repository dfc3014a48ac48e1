package rpcrdma_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestDrainUnsignaled: a connection ends in order while replies are out whose
// completion nobody asked for. They arrive, and nothing of theirs is left.
func TestDrainUnsignaled(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		for calls := range 10 {
			c, conn := b.dial(nil)
			for i := range calls {
				must(t, readBack(b.ctx, c, procRead, 4096, 4096, uint32(i)))
			}
			must(t, conn.Drain(b.ctx))
			<-c.Done()
			should(t, conn.Err())
			if m := b.l.Memory(); m.Taken != 0 {
				t.Errorf("%d calls: %+v", calls, m)
			}
		}
	})
}

// TestUnsignaledMemory: what an idle connection keeps of its last replies is
// bounded, and comes back when there is no memory for somebody.
func TestUnsignaledMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hog := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure != procNull {
				return service{}.ServeRPC(ctx, c, r)
			}
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for {
				b, err := r.Mem.Alloc(ctx, regmem.MaxBuffer)
				if err != nil {
					return nil
				}
				defer b.Release()
			}
		})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: 1, handler: hog, timeout: time.Hour})
		c, _ := b.dial(nil)
		taken := func() int64 {
			synctest.Wait()
			return b.l.Memory().Taken
		}
		exhaust := func() { must(t, plain(b.ctx, c, procNull)) }
		exhaust()
		least, most := taken(), int64(0)
		for _, n := range []int{100, 4096, 8000, 30000, 60000, 1 << 20} {
			for i := range 20 {
				must(t, readBack(b.ctx, c, procRead, n, n, uint32(i)))
				most = max(most, taken())
			}
			exhaust()
			if m := taken(); m != least {
				t.Errorf("replies of %d bytes: %d bytes taken, %d before", n, m, least)
			}
		}
		if most <= least || most > least+64<<10 {
			t.Errorf("at most %d bytes taken, %d at least", most, least)
		}
	})
}
