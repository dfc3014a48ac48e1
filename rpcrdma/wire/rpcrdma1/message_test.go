package rpcrdma1

import (
	"bytes"
	"testing"
)

// TestMessage: the RPC message is found behind every header that Decode takes,
// and behind those that are sound but for their length.
func TestMessage(t *testing.T) {
	seg := Segment{Handle: 1, Length: 2, Offset: 3}
	chunks := func(n int) (all []WriteChunk) {
		for range n {
			all = append(all, WriteChunk{seg})
		}
		return all
	}
	rpc := []byte("the RPC message.")
	for name, h := range map[string]Header{
		"no chunks":          {},
		"padded":             {Proc: MsgP, Align: 64, Thresh: 512},
		"all lists":          {Reads: make([]ReadSegment, 2), Writes: chunks(3), Reply: WriteChunk{seg, seg}, HasReply: true},
		"too many reads":     {Reads: make([]ReadSegment, MaxReadSegments+1)},
		"too many writes":    {Writes: chunks(MaxWriteChunks + 1)},
		"too many segments":  {Writes: []WriteChunk{make(WriteChunk, MaxSegments+1)}},
		"too long for reply": {Reply: make(WriteChunk, MaxSegments+1), HasReply: true},
	} {
		h.Version = Version
		b := append(h.Append(nil), rpc...)
		if got, ok := Message(b); !ok || !bytes.Equal(got, rpc) {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
		var d Header
		if n, err := d.Decode(b); err == nil && !bytes.Equal(b[n:], rpc) {
			t.Errorf("%s: Decode says %d bytes", name, n)
		}
		for n := range len(b) - len(rpc) {
			if got, ok := Message(b[:n]); ok {
				t.Errorf("%s: %q behind %d bytes of the header", name, got, n)
			}
		}
	}
}

// TestMessageNone: types without an RPC message behind them, another version, and
// headers that make no sense.
func TestMessageNone(t *testing.T) {
	word := func(b ...byte) []byte { return append([]byte{0, 0, 0, 1}, b...) }
	for name, b := range map[string][]byte{
		"NOMSG":         (&Header{Version: Version, Proc: NoMsg}).Append(nil),
		"DONE":          (&Header{Version: Version, Proc: Done}).Append(nil),
		"ERROR":         (&Header{Version: Version, Proc: Error, Err: ErrChunk}).Append(nil),
		"unknown type":  word(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"version 3":     word(0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"no boolean":    word(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0),
		"endless chunk": word(0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff),
		"nothing":       nil,
	} {
		if got, ok := Message(b); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
}
