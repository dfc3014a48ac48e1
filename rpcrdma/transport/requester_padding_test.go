package transport

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestUnpad: results come out of a padded reply as they were, whatever the
// alignment and threshold, and whichever of them are apart.
func TestUnpad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pad := oncrpc.Padding{
			Align: 1 << rapid.IntRange(0, 16).Draw(t, "align"), Thresh: rapid.Uint32Range(0, 3000).Draw(t, "thresh"),
			Base: 4 * rapid.Uint32Range(0, 100).Draw(t, "base"),
		}
		const header = 24
		var c RPC
		var padded, plain []byte
		for i := range rapid.IntRange(1, 4).Draw(t, "results") {
			before := 4 * rapid.IntRange(0, 20).Draw(t, "words")
			n := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 4000)).Draw(t, "length")
			b := bytes.Repeat([]byte{byte(i + 1)}, n)
			padded, plain = append(padded, make([]byte, before)...), append(plain, make([]byte, before)...)
			at, apart := len(plain), n > 0 && rapid.Bool().Draw(t, "apart")
			padded, plain = xdr.AppendUint32(padded, uint32(n)), xdr.AppendUint32(plain, uint32(n))
			c.Results = append(c.Results, Result{Max: n, Find: func([]byte) int { return at }})
			if apart {
				c.Results[i].Apart = n
				continue
			}
			if uint32(n) >= pad.Thresh {
				for (pad.Base+header+uint32(len(padded)))%pad.Align != 0 {
					padded = append(padded, 0xee)
				}
			}
			padded, plain = xdr.AppendFixed(padded, b), xdr.AppendFixed(plain, b)
		}
		whole := bytes.Repeat([]byte{0xaa}, header)
		whole = append(whole, padded...)
		c.Reply = padded
		if err := c.unpad(pad, header, 0); err != nil || !bytes.Equal(c.Reply, plain) {
			t.Fatalf("%v: %x, want %x", err, c.Reply, plain)
		}
		c.Reply = whole
		if err := c.unpad(pad, 0, header); err != nil || !bytes.Equal(c.Reply[header:], plain) {
			t.Fatalf("whole reply: %v: %x, want %x", err, c.Reply, plain)
		}
	})
}

// TestUnpadRefuses: replies whose padding can't be found, or is not there.
func TestUnpadRefuses(t *testing.T) {
	pad := oncrpc.Padding{Align: 512, Thresh: 512, Base: 36}
	good := func() []byte {
		b := xdr.AppendUint32(nil, 600)
		b = append(b, make([]byte, 512-36-24-len(b))...)
		return append(b, bytes.Repeat([]byte{7}, 600)...)
	}
	at := func(n int) func([]byte) int { return func([]byte) int { return n } }
	for name, c := range map[string]RPC{
		"no result":            {Reply: good()},
		"no way to find it":    {Reply: good(), Results: []Result{{}}},
		"the second not":       {Reply: good(), Results: []Result{{Find: at(0)}, {}}},
		"found beyond the end": {Reply: good(), Results: []Result{{Find: at(len(good()))}}},
		"found half beyond":    {Reply: good(), Results: []Result{{Find: at(len(good()) - 3)}}},
		"found twice":          {Reply: good(), Results: []Result{{Find: at(0)}, {Find: at(0)}}},
		"longer than the rest": {Reply: xdr.AppendUint32(nil, 1<<32-1), Results: []Result{{Find: at(0)}}},
		"no room for padding":  {Reply: good()[:1000], Results: []Result{{Find: at(0)}}},
		"data cut short":       {Reply: good()[:len(good())-1], Results: []Result{{Find: at(0)}}},
	} {
		if err := c.unpad(pad, oncrpc.AcceptedReplySize, 0); !errors.Is(err, conn.ErrBadReply) || len(c.Reply) != 0 {
			t.Errorf("%s: %v, %d bytes", name, err, len(c.Reply))
		}
	}
	c := RPC{Reply: good(), Results: []Result{{Find: at(-1)}, {Find: at(0)}}}
	if err := c.unpad(pad, oncrpc.AcceptedReplySize, 0); err != nil || len(c.Reply) != 604 {
		t.Errorf("%v, %d bytes", err, len(c.Reply))
	}
}
