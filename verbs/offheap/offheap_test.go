package offheap

import (
	"errors"
	"math"
	"os"
	"reflect"
	"sync"
	"testing"
)

func alloced(t *testing.T, n int) *Region {
	t.Helper()
	r, err := Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRegion: memory is whole pages, begins at one, is zero, and is counted until
// it is freed.
func TestRegion(t *testing.T) {
	page := os.Getpagesize()
	before := Read()
	for _, n := range []int{1, page - 1, page, page + 1, 1 << 20} {
		r := alloced(t, n)
		mem := r.Bytes()
		if len(mem) < n || len(mem) >= n+page || len(mem)%page != 0 || reflect.ValueOf(mem).Pointer()%uintptr(page) != 0 {
			t.Errorf("%d bytes for %d, at 0x%x", len(mem), n, reflect.ValueOf(mem).Pointer())
		}
		for i := range mem {
			if mem[i] != 0 {
				t.Fatalf("byte %d is %d", i, mem[i])
			}
			mem[i] = 1
		}
		if s := Read(); s.Used-before.Used != int64(len(mem)) || s.Regions != before.Regions+1 || s.Peak < s.Used {
			t.Errorf("%+v with %d bytes", s, len(mem))
		}
		r.Free()
	}
	if s := Read(); s.Used != before.Used || s.Regions != before.Regions {
		t.Errorf("%+v in the end, %+v before", s, before)
	}
	for _, n := range []int{0, -1} {
		if r, err := Alloc(n); err == nil {
			t.Errorf("%d bytes", n)
			r.Free()
		}
	}
}

func TestFreedTwice(t *testing.T) {
	r := alloced(t, 1)
	r.Free()
	before := Read()
	defer func() {
		if recover() == nil || Read() != before {
			t.Errorf("no panic, or counted twice: %+v, %+v before", Read(), before)
		}
	}()
	r.Free()
}

// TestLimit: Alloc stops at the limit and Force does not. Functions passed to
// Notify are called once, at the next Free.
func TestLimit(t *testing.T) {
	defer SetLimit(math.MaxInt64)
	page := os.Getpagesize()
	SetLimit(Read().Used + int64(4*page))
	a, b := alloced(t, 2*page), alloced(t, 2*page)
	if r, err := Alloc(1); !errors.Is(err, ErrLimit) {
		t.Errorf("over the limit: %v, %v", r, err)
	}
	forced, err := Force(page)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	Notify(func() { calls++ })
	forced.Free()
	if calls != 1 {
		t.Errorf("%d calls after the first Free", calls)
	}
	a.Free()
	b.Free()
	if calls != 1 {
		t.Errorf("%d calls in the end", calls)
	}
	Notify(func() { calls++ })
	if SetLimit(math.MaxInt64); calls != 2 {
		t.Errorf("%d calls after the limit was changed", calls)
	}
}

// TestOnShortage: owners of unused memory are called when somebody begins to wait, and not for each
// that waits.
func TestOnShortage(t *testing.T) {
	called := make(chan struct{}, 8)
	stop := OnShortage(func() { called <- struct{}{} })
	for range 2 {
		r := alloced(t, 1)
		Notify(func() {})
		Notify(func() {})
		<-called
		r.Free()
	}
	stop()
	Notify(func() {})
	alloced(t, 1).Free()
	select {
	case <-called:
		t.Error("called for another waiter, or after stop")
	default:
	}
}

// TestForget: a function that was forgotten is not called, and does not count as waiting. Once it is called, it
// is too late.
func TestForget(t *testing.T) {
	before, calls := Waiting(), 0
	forget := Notify(func() { calls++ })
	if !forget() || Waiting() != before {
		t.Errorf("%d wait, %d before", Waiting(), before)
	}
	alloced(t, 1).Free()
	if calls != 0 {
		t.Error("called")
	}
	forget = Notify(func() { calls++ })
	alloced(t, 1).Free()
	if calls != 1 || forget() {
		t.Errorf("%d calls, or forgotten after", calls)
	}
}

// TestObserve: the observer sees every change, in order, whichever goroutine makes
// it.
func TestObserve(t *testing.T) {
	var last int64
	seen := 0
	Observe(func(used int64) { last, seen = used, seen+1 })
	defer Observe(func(int64) {})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				r, err := Alloc(1)
				if err != nil {
					t.Error(err)
					return
				}
				r.Free()
			}
		})
	}
	wg.Wait()
	if seen != 401 || last != Read().Used {
		t.Errorf("%d changes, at last %d of %d bytes", seen, last, Read().Used)
	}
}
