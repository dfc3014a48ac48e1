package peers

import (
	"fmt"
	"net/netip"
	"testing"
)

// BenchmarkAdd adds to a full list of many peers with a value each, which they decide.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1, 128, 8192} {
		b.Run(fmt.Sprintf("peers=%d", n), func(b *testing.B) {
			l := NewList[int](8192)
			address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }
			for i := range 8192 {
				l.Add(address(i%n), i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.Add(address(i%n), i)
			}
		})
	}
}
