package conn

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestLargestReplies: the reply of the largest size that a call was planned for finds a
// way, whatever ddp.min_chunk is at either end.
func TestLargestReplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := func() settings.Settings {
			s := settings.Default()
			s.DDPMinChunk = uint32(rapid.SampledFrom([]int{0, 1, 20, 100, 400, 4096}).Draw(t, "min"))
			s.Extensions |= rapid.SampledFrom([]settings.Extensions{0, settings.ExtV2, settings.ExtV2 | settings.ExtXmit}).Draw(t, "version")
			return s
		}
		p := newPair(t, gen(), gen())
		for range 2 { // version 2 is agreed on behind the first
			k := &pairCall{out: &Outgoing{StreamLen: 40}}
			left := 4096 - emptyHeaderSize
			for range rapid.IntRange(1, 16).Draw(t, "results") {
				n := rapid.SampledFrom([]int{0, 1, 4, 19, 100, 500}).Draw(t, "result")
				k.results = append(k.results, n)
				left -= xdr.Padded(n)
			}
			k.reply = max(left+4*rapid.IntRange(-110, 2).Draw(t, "beside"), 24)
			p.call(k)
			p.finish(first)
		}
	})
}
