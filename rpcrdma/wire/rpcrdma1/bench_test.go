package rpcrdma1

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

// benchmarked are the headers of the usual calls: inline, a WRITE's, a READ's.
var benchmarked = []string{"linux-call-inline", "linux-call-write", "linux-call-read"}

func BenchmarkAppend(b *testing.B) {
	for _, name := range benchmarked {
		b.Run(name, func(b *testing.B) {
			var h Header
			if _, err := h.Decode(wiretest.Transcripts(b)[name].Header); err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 0, h.Size())
			b.ReportAllocs()
			for b.Loop() {
				buf = h.Append(buf[:0])
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range benchmarked {
		b.Run(name, func(b *testing.B) {
			header := wiretest.Transcripts(b)[name].Header
			var h Header
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Decode(header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
