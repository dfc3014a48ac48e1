package regmem

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// TestProcessLimit: pools share the memory of the process. A pool that finds none left first frees
// its own unused slabs, and otherwise waits for the other pools: until they are trimmed, or their
// buffers are released.
func TestProcessLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 2<<20 + slabBytes)
		one, other := newPool(t, 64<<20), newPool(t, 64<<20)
		a, b := one.TryAlloc(1<<20, Service), one.TryAlloc(1<<20, Service)
		if a == nil || b == nil || one.TryAlloc(1<<20, Service) != nil {
			t.Fatalf("%+v of %+v", one.Stats(), offheap.Read())
		}
		a.Release() // the slab stays with the pool, because no other one waits
		one.Trim()
		if other.TryAlloc(1<<20, Service) != nil {
			t.Fatalf("%+v, %+v of %+v", one.Stats(), other.Stats(), offheap.Read())
		}
		if err := other.Failure(); err != nil {
			t.Errorf("the device is blamed: %v", err)
		}
		got := make(chan *Buffer)
		alloc := func() { got <- mebibyte(t, other) }
		waits := func() {
			t.Helper()
			synctest.Wait()
			select {
			case <-got:
				t.Fatal("memory that a pool keeps")
			default:
			}
		}
		go alloc()
		waits()
		one.Trim()
		c := <-got
		go alloc()
		waits()
		b.Release() // another pool waits
		b = <-got
		c.Release()
		// Of another class, with nothing but an unused slab of its own.
		d, e := other.TryAlloc(512<<10, Service), other.TryAlloc(512<<10, Service)
		if d == nil || e == nil {
			t.Fatalf("%+v of %+v", other.Stats(), offheap.Read())
		}
		for _, x := range []*Buffer{b, d, e} {
			x.Release()
		}
	})
}

// mebibyte waits for a buffer of 1 MiB.
func mebibyte(t *testing.T, p *Pool) *Buffer {
	b, err := p.Alloc(context.Background(), 1<<20, Service)
	if err != nil {
		t.Error(err)
	}
	return b
}

// TestTrimForOthers: one Trim frees all unused slabs if another pool waits, because it may need the last.
func TestTrimForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 1<<20 + slabBytes)
		one, other := newPool(t, 64<<20), newPool(t, 64<<20)
		a, b := one.TryAlloc(1024, Service), one.TryAlloc(1<<20, Service)
		a.Release()
		b.Release()
		got := make(chan *Buffer, 1)
		go func() { got <- mebibyte(t, other) }()
		synctest.Wait()
		one.Trim()
		synctest.Wait()
		select {
		case c := <-got:
			c.Release()
		default:
			t.Errorf("waits while another pool has %+v", one.Stats())
			offheap.SetLimit(math.MaxInt64)
			(<-got).Release()
		}
	})
}

// TestCloseWhileGivenToOthers: a pool that closes while its last memory goes to others leaves nothing.
func TestCloseWhileGivenToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 1<<20)
		p := loopback.New(loopback.Config{})
		inner, err := p.Device().AllocPD()
		must(t, err)
		pd := &heldPD{PD: inner, gate: make(chan error)}
		one, other := New(pd, verbs.AccessLocalWrite, 64<<20), newPool(t, 64<<20)
		a := one.TryAlloc(1<<20, Service)
		got, closed := make(chan *Buffer, 1), make(chan error, 1)
		go func() { got <- mebibyte(t, other) }()
		synctest.Wait()
		pd.waits.Store(true)
		go a.Release()
		synctest.Wait()
		go func() { closed <- one.Close() }()
		synctest.Wait()
		pd.gate <- nil
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if live := p.Device().(verbs.LiveCounter).Live(); live.Total() != 0 {
			t.Errorf("left: %+v", live)
		}
		(<-got).Release()
	})
}

// TestGaveUpWaiting: a pool whose requests have given up, or that is closed, does not count as waiting for
// memory of the process, for which slow peers of others would lose theirs.
func TestGaveUpWaiting(t *testing.T) {
	defer offheap.SetLimit(math.MaxInt64)
	offheap.SetLimit(offheap.Read().Used)
	before := offheap.Waiting()
	pool := newPool(t, MinLimit)
	if _, err := pool.Alloc(oncrpc.NoWait, 1<<20, Service); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := offheap.Waiting(); n != before || pool.Stats().Starved {
		t.Errorf("%d wait, %d before; %+v", n, before, pool.Stats())
	}
	if b := pool.TryAlloc(1<<20, Service); b != nil {
		b.Release()
		t.Error("there is memory")
	}
	if pool.Trim(); offheap.Waiting() != before {
		t.Errorf("%d wait after a request that does not, %d before", offheap.Waiting(), before)
	}
	t.Run("closed", func(t *testing.T) {
		if b := newPool(t, MinLimit).TryAlloc(1<<20, Service); b != nil {
			b.Release()
			t.Error("there is memory")
		}
	})
	if n := offheap.Waiting(); n != before {
		t.Errorf("%d wait when the pool is closed, %d before", n, before)
	}
}

// TestSingle: memory that can't wait ignores the limit, is counted, and is freed
// with its registration.
func TestSingle(t *testing.T) {
	defer offheap.SetLimit(math.MaxInt64)
	offheap.SetLimit(0)
	pool := newPool(t, 0)
	before := offheap.Read()
	b, err := pool.Single(5000)
	must(t, err)
	if s := offheap.Read(); len(b.Bytes()) != 5000 || b.Pooled() || s.Regions != before.Regions+1 {
		t.Errorf("%d bytes, %+v", len(b.Bytes()), s)
	}
	b.Release()
	if s := offheap.Read(); s.Used != before.Used {
		t.Errorf("%+v, %+v before", s, before)
	}
}

// orderPD notes the order in which memory is registered and unregistered.
type orderPD struct {
	verbs.PD
	t *testing.T
}

type orderMR struct {
	verbs.MR
	t *testing.T
}

func (pd orderPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	mr, err := pd.PD.RegMR(buf, access)
	return orderMR{mr, pd.t}, err
}

// Close writes to the memory, as a peer may until Close returns.
func (mr orderMR) Close() error {
	for i := 0; i < len(mr.Bytes()); i += pageSize {
		mr.Bytes()[i]++
	}
	if offheap.Read().Used < int64(len(mr.Bytes())) {
		mr.t.Error("freed before it was unregistered")
	}
	return mr.MR.Close()
}

// TestUnregisteredFirst: memory is freed only after its registration has ended,
// whichever way it is released.
func TestUnregisteredFirst(t *testing.T) {
	pd, err := loopback.New(loopback.Config{}).Device().AllocPD()
	must(t, err)
	pool := New(orderPD{pd, t}, verbs.AccessLocalWrite, 2*MinLimit)
	for range 2 {
		for c := range classes {
			pool.TryAlloc(classSize(c), Service).Release()
		}
		pool.Trim()
		pool.Trim()
	}
	b, err := pool.Single(100)
	must(t, err)
	b.Release()
	pool.TryAlloc(MaxBuffer, Service).Release()
	pool.SetLimit(MinLimit)
	pool.TryAlloc(1, Service).Release()
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
