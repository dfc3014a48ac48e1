package rpcrdma_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// reader is a service that reads all data of its calls.
type reader struct{ sum atomic.Uint64 }

func (r *reader) Observe(o *rpcrdma.Operation) {
	for _, d := range o.Data {
		for i := 0; i < len(d); i += 512 {
			r.sum.Add(uint64(d[i]))
		}
	}
}

// TestMemoryIsUnmappedUnderLoad: registered memory goes back to the operating system
// as soon as it is unused, over and over. Meanwhile calls of all sizes read and
// write, a trace runs, and connections end in the middle of calls. No call finds
// wrong data, and nothing accesses unmapped memory, which would end the program.
func TestMemoryIsUnmappedUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var tap rpcrdma.Tap
		tap.Set(new(reader))
		b := newBed(t, p, bedConfig{memory: 64 << 20, tap: &tap, timeout: 10 * time.Minute})
		for round := range 2 {
			var clients [4]*rpcrdma.Client
			for id := range clients { // until there is no memory for more receives
				clients[id], _ = b.dial(func(s *rpcrdma.Settings) { s.CreditsMax = 16 })
			}
			var calls sync.WaitGroup
			for id, c := range clients {
				for worker := range 3 {
					calls.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(round), uint64(id*8+worker)))
						for i := range 6 {
							if id == 3 && worker == 0 && i == 3 {
								c.Close() // with calls of the others in flight
							}
							n, seed := 1<<rng.IntN(21), rng.Uint32()
							err := readBack(b.ctx, c, []uint32{procRead, procHeap}[i%2], n, n, seed)
							if err == nil {
								err = writeOut(b.ctx, c, n, seed)
							}
							if err != nil && id != 3 {
								t.Errorf("client %d: %v", id, err)
							}
							// Unmaps unused memory at once.
							b.l.SetMemoryLimit(rpcrdma.MinMemoryLimit)
							b.l.SetMemoryLimit(64 << 20)
						}
					})
				}
			}
			calls.Wait()
		}
	})
}
