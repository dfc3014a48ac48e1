package offheap

import (
	"errors"
	"math"
	"os"
	"testing"
)

// TestPart: what is kept for a part is there for its owner only, whatever others have, until the part is closed.
func TestPart(t *testing.T) {
	defer SetLimit(math.MaxInt64)
	page := os.Getpagesize()
	SetLimit(Read().Used + int64(8*page))
	p := Keep(3*page - 1)
	refused := func(what string, alloc func(int) (*Region, error), n int) {
		t.Helper()
		if r, err := alloc(n); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	refused("what is kept", Alloc, 6*page)
	all := alloced(t, 5*page)
	refused("beyond what is kept", Alloc, 1)
	take := func(n int) *Region {
		t.Helper()
		r, err := p.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := take(2*page), take(1)
	refused("a part that is used up", p.Alloc, 1)
	if s := Read(); s.Kept != int64(3*page) || s.Used > s.Limit {
		t.Errorf("%+v", s)
	}
	a.Free()
	refused("what is free in the part", Alloc, 1)
	a = take(2 * page)
	all.Free()
	all = alloced(t, 5*page) // others get theirs, and not more
	refused("what others have", Alloc, 1)
	b.Free()
	woken := false
	Notify(func() { woken = true })
	p.Close()
	p.Close()
	if s := Read(); !woken || s.Kept != 0 {
		t.Errorf("after the end: woken %v, %+v", woken, s)
	}
	refused("a closed part", p.Alloc, 1)
	refused("a region of it that stays", Alloc, 2*page)
	alloced(t, page).Free()
	a.Free()
	alloced(t, 3*page).Free()
	all.Free()
}

// TestPartAfterLowerLimit: the owner of a part gets it also while others still have more than a lower limit.
func TestPartAfterLowerLimit(t *testing.T) {
	defer SetLimit(math.MaxInt64)
	page := os.Getpagesize()
	p, all := Keep(page), alloced(t, 100*page)
	defer p.Close()
	SetLimit(Read().Used - int64(50*page))
	r, err := p.Alloc(page)
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
	all.Free()
}

// TestTooManyParts: parts that are more than three quarters of the limit keep nothing.
func TestTooManyParts(t *testing.T) {
	defer SetLimit(math.MaxInt64)
	page := os.Getpagesize()
	SetLimit(Read().Used + int64(8*page))
	p := Keep(6 * page)
	woken := false
	Notify(func() { woken = true })
	other := Keep(page)
	if !woken {
		t.Error("who waits does not learn that there is more")
	}
	if r, err := p.Alloc(1); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, %v", r, err)
	}
	alloced(t, 8*page).Free()
	other.Close()
	if r, err := Alloc(3 * page); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, %v", r, err)
	}
	p.Close()
}
