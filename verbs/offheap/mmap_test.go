//go:build linux && !race

package offheap

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// TestAccessAfterFree: freed memory is unmapped, so that an access faults.
func TestAccessAfterFree(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	r := alloced(t, 1<<20)
	mem := r.Bytes()
	mem[0] = 1
	r.Free()
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "invalid memory address") {
			t.Errorf("read after Free: %v", err)
		}
	}()
	t.Errorf("read %d", mem[0])
}

// TestSpare: memory that can't be unmapped gives its pages back, and is used again.
func TestSpare(t *testing.T) {
	n := 7 * os.Getpagesize()
	mem, err := mapped(n)
	if err != nil {
		t.Fatal(err)
	}
	mem[0] = 1
	giveBack(mem)
	r := alloced(t, n)
	defer r.Free()
	if &r.Bytes()[0] != &mem[0] || mem[0] != 0 {
		t.Errorf("other memory, or not zero: %d", mem[0])
	}
}
