package pcap

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// sumOfWords is checksum, word by word.
func sumOfWords(b []byte, sum uint64) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func TestChecksum(t *testing.T) {
	ones := make([]byte, maxSegment)
	for i := range ones {
		ones[i] = 0xff
	}
	random := make([]byte, maxSegment)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for _, b := range [][]byte{ones, random, make([]byte, maxSegment)} {
		for n := range 70 {
			for _, sum := range []uint64{0, 1, protoTCP + 20, 0xffff, 1 << 20} {
				if got, want := checksum(b[:n], sum), sumOfWords(b[:n], sum); got != want {
					t.Errorf("%#x of % x and %#x, want %#x", got, b[:n], sum, want)
				}
			}
		}
		if got, want := checksum(b, 0), sumOfWords(b, 0); got != want {
			t.Errorf("%#x, want %#x", got, want)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{40, maxSegment} {
		b.Run(fmt.Sprintf("size=%d", n), func(b *testing.B) {
			data := bytesOf(n)
			b.SetBytes(int64(n))
			for b.Loop() {
				checksum(data, 0)
			}
		})
	}
}
