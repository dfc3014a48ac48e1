//go:build !linux || race

package offheap

import "testing"

// TestAccessAfterFree finds poison in freed memory.
func TestAccessAfterFree(t *testing.T) {
	r := alloced(t, 1)
	mem := r.Bytes()
	r.Free()
	if mem[0] != poison || mem[len(mem)-poisonEvery] != poison {
		t.Errorf("%#x", mem[0])
	}
}
