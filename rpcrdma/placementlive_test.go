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

// anySettings are settings of an end that places items by Sends, with anything
// that may change while it does: sizes, credits, which extensions are on.
func anySettings(rng *rand.Rand) *rpcrdma.Settings {
	sizes := []uint32{4 << 10, 5 << 10, 6 << 10, 8 << 10, 9 << 10, 12 << 10, 17 << 10, 33 << 10, 40 << 10}
	extensions := []rpcrdma.Extensions{
		0, rpcrdma.ExtCharacteristics, rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit, continuation, sendDDP, sendDDP | continuation,
	}
	s := rpcrdma.DefaultSettings()
	backward(4)(&s)
	speakingWith(extensions[rng.IntN(len(extensions))])(&s)
	s.InlineReceiveSize, s.InlineSendMax = sizes[rng.IntN(len(sizes))], sizes[rng.IntN(len(sizes))]
	s.CreditsMax = 1 + rng.Uint32N(64)
	s.DDPMinChunk = []uint32{1, 1000, 4096, 20000, 1 << 20}[rng.IntN(5)]
	s.Placement = rpcrdma.Placement(rng.IntN(4))
	return &s
}

// TestPlacedWhileChanged: at both ends the size of receives changes, and with it
// where their target segments are, extensions are turned off and on, and bounds
// move, under calls in flight of both directions. Every byte lands where it
// belongs, and no call fails.
func TestPlacedWhileChanged(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		set := func(s *rpcrdma.Settings) {
			placing(rpcrdma.ExtContinuation)(s)
			backward(4)(s)
		}
		b := newBed(t, p, bedConfig{settings: set, handler: &landing{}})
		c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, set)
		must(t, echo(b.ctx, c, 1, 1))
		conn.OpenBackchannel()
		ctx, cancel := context.WithCancel(b.ctx)
		var calling, changing sync.WaitGroup
		for i := range uint32(6) {
			calling.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				for k := range uint32(40) {
					n := 1 + rng.IntN(40000)
					if err := errors.Join(
						writeOut(b.ctx, c, n, i<<16|k), readBack(b.ctx, c, procRead, n, n, k<<16|i),
						echo(b.ctx, c, n%20000, k), echo(b.ctx, conn, n%900, k),
					); err != nil {
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
					set(anySettings(rng))
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
		if cs, ss := c.Stats(), conn.Stats(); cs.Errors+cs.BadReplies+cs.Dropped+ss.Errors+ss.Dropped != 0 || c.Info().Connects != 1 {
			t.Errorf("%+v\n%+v", cs, ss)
		}
	})
}
