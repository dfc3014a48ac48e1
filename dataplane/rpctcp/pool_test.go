package rpctcp

import (
	"net/netip"
	"os"
	"reflect"
	"testing"
)

func TestPoolClasses(t *testing.T) {
	pool := newPool(8<<20, 1<<20+1)
	defer pool.close()
	p := pool.join(netip.Addr{})
	for _, c := range []struct{ n, size int }{
		{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {65536, 65536}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 4096},
	} {
		b, err := p.get(t.Context(), c.n)
		if err != nil || len(b.Bytes()) != c.size {
			t.Fatalf("%d: %v", c.n, err)
		}
		if at := reflect.ValueOf(b.Bytes()).Pointer(); at%uintptr(os.Getpagesize()) != 0 {
			t.Errorf("%d: at 0x%x, not on a page", c.n, at)
		}
		b.Release()
	}
	for _, n := range []int{-1, 1<<20 + 2, 1 << 40} {
		if b, err := p.Alloc(t.Context(), n); err == nil || b != nil {
			t.Errorf("%d: %v, %v", n, b, err)
		}
	}
	if out := p.share.Held(); out != 0 {
		t.Errorf("%d bytes out", out)
	}
}

func TestPoolReuses(t *testing.T) {
	pool := newPool(1<<20, 4096)
	defer pool.close()
	p := pool.join(netip.Addr{})
	first, err := p.get(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	first.Release()
	second, err := p.get(t.Context(), 4096)
	if err != nil || second != first {
		t.Errorf("another buffer, %v", err)
	}
	second.Release()
	ctx := t.Context()
	if allocs := testing.AllocsPerRun(100, func() {
		if b, err := p.get(ctx, 100); err == nil {
			b.Release()
		}
	}); allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second release goes unnoticed")
		}
	}()
	second.Release()
}

// TestPoolKeepsLittle releases more than the pool may keep.
func TestPoolKeepsLittle(t *testing.T) {
	p := newPool(2*maxIdle, 1<<20)
	defer p.close()
	a := p.join(netip.Addr{})
	var out []*buffer
	for range 2 * maxIdle >> 20 {
		b, err := a.get(t.Context(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	for _, b := range out {
		b.Release()
	}
	if n := len(p.idle.classes[classOf(1<<20)].buffers); p.idle.kept != maxIdle || n != maxIdle>>20 {
		t.Errorf("%d bytes kept in %d buffers", p.idle.kept, n)
	}
}
