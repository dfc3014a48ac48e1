package transport

import (
	"errors"
	"testing"
)

func TestComplaints(t *testing.T) {
	var c complaints
	a, b := errors.New("a"), errors.New("b")
	expect := func(last bool, want uint64, why error) {
		t.Helper()
		if n, first := c.tick(last); n != want || !errors.Is(first, why) {
			t.Fatalf("%d, %v; want %d, %v", n, first, want, why)
		}
	}
	expect(false, 0, nil)
	c.add(a)
	c.add(b)
	expect(false, 2, a)
	for range complaintTicks - 1 {
		c.add(b)
		expect(false, 0, nil)
	}
	expect(false, uint64(complaintTicks-1), b)
	c.add(a)
	expect(false, 0, nil)
	expect(true, 1, a)
	expect(true, 0, nil)
	for range 2 * complaintTicks {
		expect(false, 0, nil)
	}
	c.add(b)
	expect(false, 1, b)
}
