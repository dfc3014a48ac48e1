package driver

import (
	"sync"
	"testing"
)

// pin looks an STag up and pins its region. It returns nil if there is none.
func (t *Tags) pin(stag uint32) *Region {
	r := t.find(stag)
	if r == nil || !r.pin(stag) {
		return nil
	}
	return r
}

// TestTags: tags are unique, never 0, found while reserved, and forgotten
// afterwards, while the table grows under look-ups.
func TestTags(t *testing.T) {
	var table Tags
	pd := &SoftPD{}
	regions := map[uint32]*Region{}
	for range 5000 {
		r := &Region{}
		r.init(pd)
		stag := table.reserve(r)
		if stag == 0 || regions[stag] != nil {
			t.Fatalf("tag %#x given twice, or none", stag)
		}
		if table.pin(stag) != nil {
			t.Fatal("region pinned before it was enabled")
		}
		r.enable(stag)
		regions[stag] = r
	}
	for stag, r := range regions {
		if got := table.pin(stag); got != r {
			t.Fatalf("tag %#x: found %p, not %p", stag, got, r)
		}
		r.Unpin()
		// Tags that fall into the same slot are not it.
		if table.pin(stag^1<<31) != nil && regions[stag^1<<31] == nil {
			t.Fatal("a foreign tag was accepted")
		}
	}
	if n := len(table.slots.Load().regions); n != 16384 {
		t.Errorf("%d slots for 5000 tags", n)
	}
	for stag, r := range regions {
		r.revoke()
		table.release(stag)
		if table.pin(stag) != nil {
			t.Fatalf("tag %#x still found", stag)
		}
	}
	if table.Len() != 0 {
		t.Errorf("%d tags left", table.Len())
	}
}

// TestRevokeWaits: revoking returns when the last pin has ended, and no pin succeeds after
// revoking has started.
func TestRevokeWaits(t *testing.T) {
	r := &Region{}
	r.init(&SoftPD{})
	for stag := uint32(1); stag < 200; stag++ {
		r.enable(stag)
		for range 2 {
			if !r.pin(stag) {
				t.Fatal("not pinned")
			}
		}
		revoked := make(chan struct{})
		go func() {
			r.revoke()
			close(revoked)
		}()
		for r.pin(stag) { // until the revoke has begun
			r.Unpin()
		}
		r.Unpin()
		select {
		case <-revoked:
			t.Fatal("revoked under a pin")
		default:
		}
		r.Unpin()
		<-revoked
	}
}

// TestPinRace pins from several goroutines while the region comes and goes:
// memory behind a pin must not change hands.
func TestPinRace(t *testing.T) {
	var table Tags
	r := &Region{}
	r.init(&SoftPD{})
	var mu sync.RWMutex
	var stag uint32
	owner := 0 // written while revoked, read while pinned
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				tag := stag
				mu.RUnlock()
				if got := table.pin(tag); got != nil {
					_ = owner
					got.Unpin()
				}
			}
		})
	}
	for range 2000 {
		tag := table.reserve(r)
		owner++
		r.enable(tag)
		mu.Lock()
		stag = tag
		mu.Unlock()
		r.revoke()
		table.release(tag)
	}
	close(stop)
	wg.Wait()
}

// TestNoSTag: STag 0 names no memory, also not that of a region that is being revoked.
func TestNoSTag(t *testing.T) {
	var r Region
	r.init(nil)
	r.enable(64)
	if !r.pin(64) {
		t.Fatal("not enabled")
	}
	r.Unpin()
	r.stag.Store(0) // what revoke does first
	if r.pin(0) {
		t.Error("STag 0 is taken")
	}
}
