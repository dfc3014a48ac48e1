package regmem

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

// TestSetLimit: raising lets waiters have what they wait for, lowering drops
// what nobody uses and stops at what is taken.
func TestSetLimit(t *testing.T) { synctest.Test(t, testSetLimit) }

func testSetLimit(t *testing.T) {
	pool := newPool(t, MinLimit)
	if got := pool.SetLimit(1); got != MinLimit {
		t.Errorf("limit %d, want %d", got, MinLimit)
	}
	var taken []*Buffer
	for b := pool.TryAlloc(MaxBuffer, Service); b != nil; b = pool.TryAlloc(MaxBuffer, Service) {
		taken = append(taken, b)
	}
	got := make(chan *Buffer)
	go func() {
		b, err := pool.Alloc(context.Background(), MaxBuffer, Service)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	synctest.Wait()
	if limit := pool.SetLimit(2 * MinLimit); limit != 2*MinLimit {
		t.Errorf("raised to %d", limit)
	}
	taken = append(taken, <-got)
	held := pool.Stats().Registered
	if limit := pool.SetLimit(MinLimit); limit != held || held <= MinLimit {
		t.Errorf("lowered to %d with %d taken", limit, held)
	}
	for _, b := range taken {
		b.Release()
	}
	if limit := pool.SetLimit(MinLimit); limit != MinLimit || pool.Stats().Registered > MinLimit {
		t.Errorf("lowered to %d, %d registered", limit, pool.Stats().Registered)
	}
}

// TestSetLimitShares: whatever is taken when limits change, a large buffer for
// a service is to be had once the services' own are back.
func TestSetLimitShares(t *testing.T) {
	pool := newPool(t, 8*MinLimit)
	r := rand.New(rand.NewPCG(1, 2))
	var kept, lent []*Buffer
	for range 4000 {
		switch r.IntN(8) {
		case 0:
			pool.SetLimit(r.Int64N(10 * MinLimit))
		case 1:
			for _, b := range lent {
				b.Release()
			}
			lent = lent[:0]
			b := pool.TryAlloc(MaxBuffer, Service)
			if b == nil {
				t.Fatalf("no memory for a service: %+v", pool.Stats())
			}
			b.Release()
		case 2, 3:
			if b := pool.TryAlloc(r.IntN(8192), Service); b != nil {
				lent = append(lent, b)
			}
		case 4:
			if len(kept) > 0 {
				i := r.IntN(len(kept))
				kept[i].Release()
				kept[i] = kept[len(kept)-1]
				kept = kept[:len(kept)-1]
			}
		default:
			if b := pool.TryAlloc(4096<<r.IntN(6), Receive); b != nil {
				kept = append(kept, b)
			}
		}
		if s := pool.Stats(); s.Registered > s.Limit {
			t.Fatalf("%+v", s)
		}
	}
	for _, b := range append(kept, lent...) {
		b.Release()
	}
}

func TestFootprint(t *testing.T) {
	for n, want := range map[int]int{0: 1024, 1024: 1024, 4096: 4096, 4097: 8192, 1 << 20: 1 << 20, MaxBuffer: MaxBuffer} {
		if got := Footprint(n); got != want {
			t.Errorf("%d bytes take %d, want %d", n, got, want)
		}
	}
}
