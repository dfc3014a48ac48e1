package conn

import (
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestPlacedCallsFitMemory: whatever the structure of the peer's receives, the Sends of a call,
// with the padding of its items, are no longer than the largest message.
func TestPlacedCallsFitMemory(t *testing.T) {
	const receive = settings.InlineMax
	for name, tc := range map[string]struct {
		plain, target uint32 // the length of the first segment, and of the others
		items         []int
	}{
		"padding before items": {8192, receive - 8192, []int{1<<20 + 60<<10}},
		"padding behind items": {1024, 8192, slices.Repeat([]int{69000}, 16)},
	} {
		t.Run(name, func(t *testing.T) {
			s := placingSettings()
			s.InlineReceiveSize, s.InlineSendMax = receive, receive
			r := placingRequester(t, s)
			n := (receive - tc.plain) / tc.target
			length := tc.plain + n*tc.target
			r.chars.Told.ReceiveSize = receive
			r.chars.Told.Buffer = rpcrdma2.Buffer{Length: length, Groups: []rpcrdma2.BufferGroup{
				{Count: 1, Length: tc.plain}, {Count: n, Length: tc.target, Align: 4096, Flags: rpcrdma2.TargetableFlag},
			}}
			o := &Outgoing{StreamLen: 56 + 4*len(tc.items), MaxReply: 100}
			for i, n := range tc.items {
				o.Items = append(o.Items, chunk.Item{Pos: 60 + 4*i, Len: n})
			}
			must(t, r.Plan(o))
			if n := o.BodyLength(); n > MaxMessage {
				t.Errorf("%d bytes in %d Sends, placed: %v", n, o.Sends(), o.transmitted && o.xmit.placed)
			}
		})
	}
}
