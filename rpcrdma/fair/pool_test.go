package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestPoolGuarantee: whatever others have borrowed, each holder gets its share at
// once. Borrowed bytes never come from a share.
func TestPoolGuarantee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "holders")
		share := rapid.Int64Range(1, 20).Draw(t, "share")
		limit := 3*int64(n)*share + rapid.Int64Range(0, 100).Draw(t, "common")
		p := NewPool(limit, share)
		holders, held := make([]*Share, n), make([]int64, n)
		for i := range holders {
			holders[i] = p.Join(i, 1)
		}
		sum := int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "holder")
			if held[i] > 0 && rapid.Bool().Draw(t, "release") {
				k := rapid.Int64Range(1, held[i]).Draw(t, "back")
				holders[i].Release(k)
				held[i] -= k
				sum -= k
				continue
			}
			k := rapid.Int64Range(1, limit).Draw(t, "bytes")
			free := limit - sum
			for j := range holders {
				if j != i {
					free -= max(share-held[j], 0)
				}
			}
			got := holders[i].TryAcquire(k)
			if want := held[i]+k <= share || k <= free || sum == 0; got != want {
				t.Fatalf("holder %d with %d of share %d: %d more was %v, want %v; %v of %d", i, held[i], share, k, got, want, held, limit)
			}
			if got {
				held[i] += k
				sum += k
			}
		}
		if u := p.Usage(); u.Held != sum || u.Waiting != 0 {
			t.Fatalf("%+v, want %d held", u, sum)
		}
	})
}

// TestPoolTurns: with more holders than the limit has shares for, those within
// their share take turns before any borrower.
func TestPoolTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(40, 10) // two shares are kept
		a, b, c, d := p.Join("a", 1), p.Join("b", 1), p.Join("c", 1), p.Join("d", 1)
		if !a.TryAcquire(10) || !a.TryAcquire(4) || !a.TryAcquire(6) || a.TryAcquire(1) {
			t.Fatal("the first may have half of the limit")
		}
		if !b.TryAcquire(10) || !c.TryAcquire(10) || d.TryAcquire(10) {
			t.Fatal("two shares more are free")
		}
		order := make(chan string, 4)
		wait := func(s *Share, n int64, name string) {
			go func() {
				if s.Acquire(t.Context(), n) == nil {
					order <- name
				}
			}()
			synctest.Wait()
		}
		wait(a, 1, "borrower")
		wait(b, 1, "another")
		wait(d, 10, "d")
		if !a.OthersWait() || p.Usage().Waiting != 3 || !p.Usage().Exhausted {
			t.Fatalf("%+v", p.Usage())
		}
		a.Release(10)
		if got := <-order; got != "d" || p.Usage().Exhausted {
			t.Fatalf("%s was granted, %+v", got, p.Usage())
		}
		c.Release(10)
		c.Leave()
		if len(order) != 0 {
			t.Fatalf("%s was granted, and has more than is free", <-order)
		}
		d.Release(10)
		synctest.Wait()
		if len(order) != 2 {
			t.Fatalf("%d of the two that wait were granted", len(order))
		}
	})
}

// TestPoolPeers: with more holders than shares, peers that take all they can get by
// many connections, and wait for more, leave as much as each of them has. Others
// get it at once, and their own requests do not stand in the way.
func TestPoolPeers(t *testing.T) {
	const share, connections = 10, 50
	for peers := 1; peers <= 5; peers++ {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p := NewPool(600, share)
			var waiting sync.WaitGroup
			hostile := make([]*Share, peers*connections)
			for i := range hostile {
				hostile[i] = p.Join(i%peers, 1)
			}
			held := make([]int64, peers)
			for more := true; more; {
				more = false
				for i, s := range hostile {
					if s.TryAcquire(share) {
						held[i%peers] += share
						more = true
					}
				}
			}
			for _, s := range hostile {
				waiting.Go(func() {
					if s.Acquire(ctx, share) == nil {
						t.Error("granted")
					}
				})
			}
			synctest.Wait()
			free := 600 - p.Usage().Held
			least := int64(600/(peers+1) - share)
			if peers == 1 { // with no other
				least = 600/8 - share
			}
			if free < least {
				t.Errorf("%d peers have %v and leave %d, want %d", peers, held, free, least)
			}
			if u := p.Usage(); u.Waiting != peers*connections || u.Exhausted != slices.ContainsFunc(hostile, func(s *Share) bool { return s.Held() == 0 }) {
				t.Errorf("%+v", u)
			}
			for i := range 2 {
				newcomer := p.Join("newcomer", 1)
				if !newcomer.TryAcquire(share) {
					t.Errorf("%d peers: newcomer %d waits", peers, i)
				}
				newcomer.Release(share)
				newcomer.Leave()
			}
			cancel()
			waiting.Wait()
			if len(p.peers) != peers {
				t.Errorf("%d peers are known, want %d", len(p.peers), peers)
			}
		})
	}
}

// TestPoolPeerFirst: a peer that has borrowed all it can before its other connections
// come, and take their shares, leaves an eighth of the limit to others.
func TestPoolPeerFirst(t *testing.T) {
	const share, limit = 10, 800
	p := NewPool(limit, share)
	p.Expect(limit)
	for range 100 {
		s := p.Join("first", 1)
		for s.TryAcquire(share) {
		}
	}
	for i := range limit / 8 / share {
		if !p.Join(i, 1).TryAcquire(share) {
			t.Fatalf("newcomer %d waits: %+v", i, p.Usage())
		}
	}
}

// TestPoolNewcomers: a holder that joins when others have borrowed all they can
// still gets its share.
func TestPoolNewcomers(t *testing.T) {
	p := NewPool(100, 10)
	p.Expect(2)
	a := p.Join("a", 1)
	for a.TryAcquire(1) {
	}
	if a.Held() != 80 {
		t.Errorf("the first has %d", a.Held())
	}
	for i := range 2 {
		if b := p.Join(i, 1); !b.TryAcquire(10) || b.TryAcquire(1) {
			t.Error("no share was kept")
		}
	}
	if u := p.Usage(); u.Held != 100 {
		t.Errorf("%+v", u)
	}
}

// TestPoolLeastFirst: among waiting borrowers, the one that holds least for its
// weight goes first.
func TestPoolLeastFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(100, 1)
		a, b, c := p.Join("a", 1), p.Join("b", 4), p.Join("c", 1)
		if !a.TryAcquire(20) || !b.TryAcquire(40) || !c.TryAcquire(40) {
			t.Fatal("too little")
		}
		order := make(chan string, 3)
		for _, w := range []struct {
			s    *Share
			name string
		}{{c, "c"}, {a, "a"}, {b, "b"}} {
			go func() {
				if w.s.Acquire(t.Context(), 5) == nil {
					order <- w.name
				}
			}()
			synctest.Wait()
		}
		for _, want := range []string{"b", "a", "c"} {
			b.Release(5)
			if got := <-order; got != want {
				t.Fatalf("%s first, want %s", got, want)
			}
		}
	})
}

// TestPoolCancel: a request that is given up does not hold up the line, and bytes
// granted to it at that moment go back.
func TestPoolCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 1)
		a, b := p.Join("a", 1), p.Join("b", 1)
		if !a.TryAcquire(9) {
			t.Fatal("too little")
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 2)
		go func() { result <- b.Acquire(ctx, 9) }()
		synctest.Wait()
		go func() { result <- a.Acquire(t.Context(), 1) }()
		synctest.Wait()
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Fatal(err)
		}
		a.Release(2)
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if u := p.Usage(); u.Held != 8 || u.Waiting != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// TestPoolLimit: a lowered limit takes no bytes from holders. A request above the
// limit is granted when no holder has any bytes. Others go on only when the holders
// are within the limit again.
func TestPoolLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(10, 2)
		a, b := p.Join("a", 1), p.Join("b", 1)
		a.Force(20)
		if a.Over() != 18 || a.Held() != 20 || p.borrowed != 18 {
			t.Errorf("over %d, %+v", a.Over(), p.Usage())
		}
		if !b.TryAcquire(2) || b.TryAcquire(1) {
			t.Error("a share is there whatever the debt")
		}
		done := make(chan error, 1)
		go func() { done <- b.Acquire(t.Context(), 30) }()
		synctest.Wait()
		p.SetLimit(5)
		a.Release(20)
		synctest.Wait()
		if len(done) != 0 {
			t.Error("granted over the limit")
		}
		b.Release(2)
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Leave()
		b.Leave()
		if u := p.Usage(); u.Holders != 1 {
			t.Errorf("%+v: the holder that has 30 bytes is still one", u)
		}
		b.Release(30)
		if u := p.Usage(); u != (Usage{Limit: 5}) {
			t.Errorf("%+v", u)
		}
	})
}

// TestPoolUnderLoad has many goroutines take, wait and give up at once. The total
// stays within the limit, every request ends, and all bytes come back.
func TestPoolUnderLoad(t *testing.T) {
	const limit, share = 64, 8
	p := NewPool(limit, share)
	var mu sync.Mutex
	out := int64(0)
	var wg sync.WaitGroup
	for worker := range 12 { // more than there are shares for
		s := p.Join(worker, worker%3+1)
		var own sync.WaitGroup
		for lane := range 3 {
			own.Go(func() {
				for i := range 300 {
					n := int64((worker*7+lane*3+i)%20 + 1)
					ctx, cancel := context.WithCancel(context.Background())
					if i%5 == 0 {
						go cancel()
					}
					if s.Acquire(ctx, n) == nil {
						mu.Lock()
						if out += n; out > limit {
							t.Errorf("%d out", out)
						}
						out -= n
						mu.Unlock()
						s.Release(n)
					}
					cancel()
				}
			})
		}
		wg.Go(func() {
			own.Wait()
			s.Leave()
		})
	}
	wg.Wait()
	if u := p.Usage(); u != (Usage{Limit: limit}) {
		t.Errorf("%+v", u)
	}
}

// TestPoolAllocatesNothing: within a share, and when it borrows without waiting.
func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(100, 10)
	s := p.Join("s", 1)
	if n := testing.AllocsPerRun(100, func() {
		if s.Acquire(context.Background(), 5) != nil || !s.TryAcquire(20) {
			t.Fatal("too little")
		}
		s.Release(20)
		s.Release(5)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
