package regmem

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

var must = verbstest.Must

// newPool makes a pool whose end is checked to leave nothing.
func newPool(t testing.TB, limit int64) *Pool {
	t.Helper()
	p := loopback.New(loopback.Config{})
	pd, err := p.Device().AllocPD()
	must(t, err)
	pool := New(pd, verbs.AccessLocalWrite, limit)
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		if live := p.Device().(verbs.LiveCounter).Live(); live.Total() != 0 {
			t.Errorf("left: %+v", live)
		}
	})
	return pool
}

func TestClasses(t *testing.T) {
	pool := newPool(t, 64<<20)
	for _, n := range []int{0, 1, 1023, 1024, 1025, 4096, 4097, 65536, 65537, 1 << 20, 1<<20 + 1, MaxBuffer} {
		b := pool.TryAlloc(n, Service)
		if b == nil {
			t.Fatalf("no %d bytes", n)
		}
		if len(b.Bytes()) < n || (n > 1024 && n <= 1<<20 && len(b.Bytes()) >= 2*n) {
			t.Errorf("%d bytes for %d", len(b.Bytes()), n)
		}
		if at := reflect.ValueOf(b.Bytes()).Pointer(); len(b.Bytes()) >= pageSize && at%pageSize != 0 {
			t.Errorf("%d bytes at 0x%x", len(b.Bytes()), at)
		}
		s := b.SGE(1, 2)
		if &s.MR.Bytes()[s.Offset-1] != &b.Bytes()[0] || s.Length != 2 {
			t.Errorf("%d bytes: %+v", n, s)
		}
		b.Release()
	}
	if b := pool.TryAlloc(MaxBuffer+1, Service); b != nil {
		t.Error("more than MaxBuffer")
	}
	if _, err := pool.Alloc(context.Background(), MaxBuffer+1, Service); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if s := pool.Stats(); s.Taken != 0 || s.Registered == 0 || s.Registered > s.Limit {
		t.Errorf("%+v", s)
	}
}

// TestShares: the pool is never larger than its limit, memory of one class
// makes room for another, and no use takes what others need.
func TestShares(t *testing.T) {
	const limit = 64 * MaxBuffer
	for name, tc := range map[string]struct {
		size        int
		use         Use
		least, most float64 // of the limit
	}{
		"large for services":   {MaxBuffer, Service, 1, 1},
		"small for services":   {4096, Service, 0.95, 1},
		"large to fetch into":  {MaxBuffer, Fetch, 0.25, 0.25},
		"small to fetch into":  {5000, Fetch, 0.24, 0.25},
		"small receives":       {4096, Receive, 0.37, 0.375},
		"large receives":       {256 << 10, Receive, 0.37, 0.375},
		"very small receives":  {1024, Receive, 0.37, 0.375},
		"very large receivers": {MaxBuffer, Receive, 0.37, 0.375},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, limit)
			warm := takeAll(pool, 1<<20, Service)
			for _, b := range warm {
				b.Release()
			}
			all := takeAll(pool, tc.size, tc.use)
			taken := 0
			for _, b := range all {
				taken += len(b.Bytes())
			}
			if f := float64(taken) / limit; f < tc.least || f > tc.most {
				t.Errorf("%d buffers, %.3f of the limit", len(all), f)
			}
			if s := pool.Stats(); s.Registered > s.Limit || s.Taken != int64(taken) {
				t.Errorf("%+v", s)
			}
			for _, b := range all {
				b.Release()
			}
		})
	}
}

func takeAll(pool *Pool, n int, use Use) (all []*Buffer) {
	for b := pool.TryAlloc(n, use); b != nil; b = pool.TryAlloc(n, use) {
		all = append(all, b)
	}
	return all
}

// TestNewcomersTakeWhatIsGivenBack: once all memory for receives is in use, receives that are
// given back are for new connections, and not for more receives of others.
func TestNewcomersTakeWhatIsGivenBack(t *testing.T) {
	for name, use := range map[string]Use{"extra": Extra, "divided": Divided} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, 64*MaxBuffer)
			others := []*Buffer{pool.TryAlloc(4096, use)}
			first := takeAll(pool, 4096, Receive)
			for _, b := range first[:10] {
				b.Release()
			}
			if b := pool.TryAlloc(4096, use); b != nil {
				t.Error("another connection has what was given back")
				b.Release()
			}
			again := takeAll(pool, 4096, Receive)
			if len(again) != 10 {
				t.Errorf("a new connection has %d of 10 receives", len(again))
			}
			for _, b := range slices.Concat(others, first[10:], again) {
				b.Release()
			}
		})
	}
}

// TestAlwaysRoom: whatever receives and fetches hold, and however fragmented
// the small classes are, there is a large buffer for a service.
func TestAlwaysRoom(t *testing.T) {
	for _, size := range []int{1024, 4096, 32768, 65536, 256 << 10} {
		pool := newPool(t, 4*MaxBuffer)
		held := takeAll(pool, size, Receive)
		// Fragment: one small buffer of each slab stays.
		for i, b := range takeAll(pool, 1024, Service) {
			if i%64 == 0 && len(b.Bytes()) == 1024 {
				held = append(held, b)
			} else {
				b.Release()
			}
		}
		held = append(held, takeAll(pool, MaxBuffer, Fetch)...)
		held = append(held, takeAll(pool, 1024, Fetch)...)
		b := pool.TryAlloc(MaxBuffer, Service)
		if b == nil {
			t.Errorf("receives of %d: %+v", size, pool.Stats())
		} else {
			b.Release()
		}
		for _, b := range held {
			b.Release()
		}
	}
}

// TestWaitInOrder: who waits gets memory in the order of asking, a large wish
// before a later small one.
func TestWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, 4*MaxBuffer)
		var held []*Buffer
		for b := pool.TryAlloc(MaxBuffer, Service); b != nil; b = pool.TryAlloc(MaxBuffer, Service) {
			held = append(held, b)
		}
		order := make(chan int, 3)
		for i, n := range []int{MaxBuffer, 10, MaxBuffer} {
			go func() {
				b, err := pool.Alloc(t.Context(), n, Service)
				if err != nil {
					t.Error(err)
					return
				}
				order <- i
				b.Release()
			}()
			synctest.Wait()
		}
		for _, b := range held {
			b.Release()
			synctest.Wait()
		}
		for want := range 3 {
			if got := <-order; got != want {
				t.Errorf("%d before %d", got, want)
			}
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(t, 4*MaxBuffer)
		var held []*Buffer
		for b := pool.TryAlloc(MaxBuffer, Fetch); b != nil; b = pool.TryAlloc(MaxBuffer, Fetch) {
			held = append(held, b)
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := pool.Alloc(ctx, MaxBuffer, Fetch)
				errs <- err
			}()
		}
		synctest.Wait()
		if b := pool.TryAlloc(1, Fetch); b != nil {
			t.Error("overtakes those who wait")
			b.Release()
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-errs
		go func() {
			_, err := pool.Alloc(t.Context(), MaxBuffer, Fetch)
			errs <- err
		}()
		synctest.Wait()
		if err := pool.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Error(err)
		}
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		for _, b := range held {
			b.Release()
		}
	})
}

func TestRegister(t *testing.T) {
	pool := newPool(t, 0)
	mem := make([]byte, 100)
	b, err := pool.Register(mem)
	must(t, err)
	if &b.Bytes()[0] != &mem[0] || &b.MR().Bytes()[0] != &mem[0] || !b.Of(pool) {
		t.Error("another memory")
	}
	if err := pool.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Error(err)
	}
	b.Release()
}

func TestTrim(t *testing.T) {
	pool := newPool(t, 64<<20)
	a, b := pool.TryAlloc(1<<20, Service), pool.TryAlloc(100, Service)
	a.Release()
	pool.Trim()
	if n := pool.Stats().Registered; n != 1<<20+slabBytes {
		t.Errorf("%d bytes after the first", n)
	}
	pool.Trim()
	if n := pool.Stats().Registered; n != slabBytes {
		t.Errorf("%d bytes after the second", n)
	}
	b.Release()
	pool.Trim()
	pool.TryAlloc(100, Service).Release() // used in between
	pool.Trim()
	if n := pool.Stats().Registered; n != slabBytes {
		t.Errorf("%d bytes after use", n)
	}
	pool.Trim()
	if n := pool.Stats().Registered; n != 0 {
		t.Errorf("%d bytes at the end", n)
	}
}

func TestReleasedTwice(t *testing.T) {
	pool := newPool(t, 0)
	b := pool.TryAlloc(1, Service)
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b.Release()
}

// TestConcurrent: many take, write, check and release; none gets memory that
// another has.
func TestConcurrent(t *testing.T) {
	pool := newPool(t, 6*MaxBuffer)
	var wg sync.WaitGroup
	for id := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(id)))
			for range 200 {
				n := 1 << rng.IntN(21)
				b, err := pool.Alloc(t.Context(), n, Use(rng.IntN(uses)))
				if err != nil {
					t.Error(err)
					return
				}
				mem := b.Bytes()
				mem[0], mem[n-1] = byte(id), byte(id)
				if rng.IntN(10) == 0 {
					pool.Trim()
				}
				if mem[0] != byte(id) || mem[n-1] != byte(id) {
					t.Error("memory of another")
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	if s := pool.Stats(); s.Taken != 0 || s.Registered > s.Limit {
		t.Errorf("%+v", s)
	}
}

func TestAllocDoesNotAllocate(t *testing.T) {
	pool := newPool(t, 64<<20)
	one := func() {
		b := pool.TryAlloc(8192, Service)
		c, err := pool.Alloc(context.Background(), 1<<20, Fetch)
		must(t, err)
		b.Release()
		c.Release()
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// slowPD registers memory when it is told to.
type slowPD struct {
	verbs.PD
	began, proceed chan struct{}
}

func (pd slowPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	pd.began <- struct{}{}
	<-pd.proceed
	return pd.PD.RegMR(buf, access)
}

// TestCloseWhileRegistering: whoever waits for a registration learns of the
// pool's end, and the memory goes with the pool.
func TestCloseWhileRegistering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		pd, err := p.Device().AllocPD()
		must(t, err)
		slow := slowPD{pd, make(chan struct{}, 1), make(chan struct{})}
		pool := New(slow, verbs.AccessLocalWrite, 64<<20)
		failed, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := pool.Alloc(t.Context(), 1<<20, Service)
			failed <- err
		}()
		<-slow.began
		go func() { closed <- pool.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("closed with a registration in progress: %v", err)
		default:
		}
		close(slow.proceed)
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := <-closed; err != nil {
			t.Errorf("%v", err)
		}
		if live := p.Device().(verbs.LiveCounter).Live(); live.Total() != 0 {
			t.Errorf("left: %+v", live)
		}
		if _, err := pool.Register(make([]byte, 8)); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// meanPD refuses to register memory while it is told to.
type meanPD struct {
	verbs.PD
	refuse error
}

func (pd *meanPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	if pd.refuse != nil {
		return nil, pd.refuse
	}
	return pd.PD.RegMR(buf, access)
}

// TestFailure: why the device has no memory is kept until it has.
func TestFailure(t *testing.T) {
	pd, err := loopback.New(loopback.Config{}).Device().AllocPD()
	must(t, err)
	mean := &meanPD{PD: pd}
	pool := New(mean, verbs.AccessLocalWrite, 64<<20)
	defer pool.Close()
	for _, refuse := range []error{nil, errors.New("only 64 KiB may be locked"), nil} {
		mean.refuse = refuse
		b := pool.TryAlloc(MaxBuffer, Service)
		if (b == nil) != (refuse != nil) || !errors.Is(pool.Failure(), refuse) {
			t.Errorf("refused with %v: buffer %t, failure %v", refuse, b != nil, pool.Failure())
		}
		if b != nil {
			b.Release()
			pool.Trim()
			pool.Trim() // unregisters it
		}
	}
}

// TestScarce: a request that finds no memory is reported, except a receive beyond the share
// of receives, for which nobody can give memory back.
func TestScarce(t *testing.T) {
	pool := newPool(t, 64*MaxBuffer)
	reports := 0
	pool.OnScarce(func() { reports++ })
	receives := takeAll(pool, 4096, Receive)
	if reports != 0 {
		t.Errorf("%d reports that receives have their share", reports)
	}
	rest := takeAll(pool, MaxBuffer, Service)
	if reports != 1 {
		t.Errorf("%d reports of a buffer for a service", reports)
	}
	receives[0].Release()
	if b := pool.TryAlloc(MaxBuffer, Fetch); b != nil || reports != 2 {
		t.Errorf("%v, %d reports of a buffer to fetch into", b, reports)
	}
	for _, b := range append(receives[1:], rest...) {
		b.Release()
	}
}
