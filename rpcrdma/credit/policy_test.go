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
