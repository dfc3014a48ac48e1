package credit

import "testing"

func TestAdaptive(t *testing.T) {
	var a Adaptive
	if n := a.Grant(4, 64); n != 4 {
		t.Errorf("at the start %d", n)
	}
	a.Observe(20)
	if n := a.Grant(4, 64); n != 40 {
		t.Errorf("busy: %d", n)
	}
	if n := a.Grant(4, 30); n != 30 {
		t.Errorf("bounded: %d", n)
	}
	for range 2 * window {
		a.Observe(1)
	}
	if n := a.Grant(4, 64); n != 4 {
		t.Errorf("idle again: %d", n)
	}
	if n := a.Grant(0, 0); n != 1 {
		t.Errorf("never below 1: %d", n)
	}
}

// TestAdaptiveAim: what was said holds instead of the load, within the bounds.
func TestAdaptiveAim(t *testing.T) {
	var a Adaptive
	a.Observe(20)
	for aim, want := range map[int]int{1: 4, 4: 4, 17: 17, 64: 64, 1000: 64, 0: 40} {
		a.Aim(aim)
		if n := a.Grant(4, 64); n != want {
			t.Errorf("aim %d: %d, want %d", aim, n, want)
		}
	}
}

func TestAdaptivePeak(t *testing.T) {
	var a Adaptive
	for _, held := range []int{3, 9, 2} {
		a.Observe(held)
	}
	if n := a.TakePeak(); n != 9 {
		t.Errorf("peak %d, want 9", n)
	}
	if n := a.TakePeak(); n != 0 {
		t.Errorf("peak %d after it was taken", n)
	}
}
