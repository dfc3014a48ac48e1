package rpcrdma_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestPlacedWhileResized: receives of both ends change their size, and with it
// where their target segments are, under calls in flight that place items in
// them. Every byte lands where it belongs, and no call fails.
func TestPlacedWhileResized(t *testing.T) {
	sizes := []uint32{5 << 10, 6 << 10, 8 << 10, 9 << 10, 12 << 10, 17 << 10, 33 << 10, 40 << 10}
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b, _, c, conn := placed(t, p, placing(rpcrdma.ExtContinuation), placing(rpcrdma.ExtContinuation))
		ctx, cancel := context.WithCancel(b.ctx)
		var calling, changing sync.WaitGroup
		for i := range uint32(8) {
			calling.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for k := range uint32(150) {
					n := 1 + rng.IntN(40000)
					if err := errors.Join(writeOut(b.ctx, c, n, i<<16|k), readBack(b.ctx, c, procRead, n, n, k<<16|i), echo(b.ctx, c, n%20000, k)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
						return
					}
				}
			})
		}
		for i, set := range []func(*rpcrdma.Settings){c.SetSettings, conn.SetSettings} {
			changing.Go(func() {
				rng := rand.New(rand.NewPCG(2, uint64(i)))
				for ctx.Err() == nil {
					s := rpcrdma.DefaultSettings()
					placing(rpcrdma.ExtContinuation)(&s)
					s.InlineReceiveSize, s.InlineSendMax = sizes[rng.IntN(len(sizes))], sizes[rng.IntN(len(sizes))]
					set(&s)
					if err := writeOut(b.ctx, c, 5000, 1); err != nil { // some time between changes
						t.Errorf("between changes: %v", err)
						return
					}
				}
			})
		}
		calling.Wait()
		cancel()
		changing.Wait()
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+cs.BadReplies+ss.Errors+ss.Dropped != 0 || c.Info().Connects != 1 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}
