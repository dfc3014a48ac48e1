package rpcrdma1

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

// TestRoundTrip draws headers of every type and compares the codec with the
// naive one in both directions. One header decodes them all, so that nothing
// of an earlier one may be left in a later one.
func TestRoundTrip(t *testing.T) {
	var reused Header
	rapid.Check(t, func(t *rapid.T) {
		want := drawHeader(t)
		encoded := want.Append(nil)
		if naive := naiveAppend(&want); !bytes.Equal(encoded, naive) {
			t.Fatalf("encoded %x, want %x", encoded, naive)
		}
		if len(encoded) != want.Size() {
			t.Fatalf("size %d, but %d bytes", want.Size(), len(encoded))
		}
		n, err := reused.Decode(append(encoded, "RPC message"...))
		if err != nil || n != len(encoded) || !equal(&reused, &want) {
			t.Fatalf("decoded %+v, %d bytes, %v; want %+v, %d bytes", reused, n, err, want, len(encoded))
		}
	})
}

func drawHeader(t *rapid.T) Header {
	word := rapid.Uint32()
	segment := rapid.Custom(func(t *rapid.T) Segment {
		return Segment{word.Draw(t, "handle"), word.Draw(t, "length"), rapid.Uint64().Draw(t, "offset")}
	})
	h := Header{
		XID:     word.Draw(t, "xid"),
		Version: Version,
		Credits: word.Draw(t, "credits"),
		Proc:    rapid.SampledFrom([]Proc{Msg, NoMsg, MsgP, Done, Error}).Draw(t, "proc"),
	}
	switch h.Proc {
	case Done:
		return h
	case Error:
		h.Err = rapid.SampledFrom([]ErrCode{ErrVers, ErrChunk}).Draw(t, "code")
		if h.Err == ErrVers {
			h.Low, h.High = word.Draw(t, "low"), word.Draw(t, "high")
		}
		return h
	case MsgP:
		h.Align, h.Thresh = word.Draw(t, "align"), word.Draw(t, "thresh")
	}
	chunk := rapid.Custom(func(t *rapid.T) WriteChunk {
		return rapid.SliceOfN(segment, 0, 6).Draw(t, "segments")
	})
	h.Reads = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ReadSegment {
		return ReadSegment{word.Draw(t, "position"), segment.Draw(t, "segment")}
	}), 0, 6).Draw(t, "reads")
	h.Writes = rapid.SliceOfN(chunk, 0, 4).Draw(t, "writes")
	if h.HasReply = rapid.Bool().Draw(t, "has reply"); h.HasReply {
		h.Reply = chunk.Draw(t, "reply")
	}
	return h
}

func TestDecodeMalformed(t *testing.T) {
	const prefix = "00000007 00000001 00000020 "
	for _, c := range []struct {
		name string
		data string
		want error
	}{
		{"header type 5", prefix + "00000005 00000000 00000000 00000000", errProc},
		{"largest header type", prefix + "ffffffff 00000000 00000000 00000000", errProc},
		{"no lists", prefix + "00000000", errTruncated},
		{"read list word 2", prefix + "00000000 00000002 00000000 00000000", errPresent},
		{"write list word 2", prefix + "00000000 00000000 00000002 00000000", errPresent},
		{"reply chunk word 2", prefix + "00000000 00000000 00000000 00000002", errPresent},
		{"read list without an end", prefix + "00000000 00000001 00000000 00000001 00000002 0000000000000003", errTruncated},
		{"write chunk of 4 Gi segments", prefix + "00000000 00000000 00000001 ffffffff", errSegments},
		{"reply chunk of 4 Gi segments", prefix + "00000000 00000000 00000000 00000001 ffffffff", errSegments},
		{"write chunk shorter than its count", prefix + "00000000 00000000 00000001 00000002 00000001 00000001 0000000000000000", errTruncated},
		{"error code 0", prefix + "00000004 00000000", errCode},
		{"error code 3", prefix + "00000004 00000003", errCode},
		{"error without a code", prefix + "00000004", errTruncated},
		{"ERR_VERS without its range", prefix + "00000004 00000001 00000001", errTruncated},
		{"MSGP without its padding", prefix + "00000002 00000000", errTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Header{Reads: make([]ReadSegment, 1), Writes: make([]WriteChunk, 1), Reply: make(WriteChunk, 1), HasReply: true}
			n, err := h.Decode(wiretest.Unhex(t, c.data))
			if n != 0 || !errors.Is(err, ErrMalformed) || !errors.Is(err, c.want) {
				t.Errorf("%d, %v; want 0, %v", n, err, c.want)
			}
			p, _ := DecodePrefix(wiretest.Unhex(t, c.data))
			if want := (Header{XID: 7, Version: 1, Credits: 32, Proc: p.Proc}); !equal(&h, &want) {
				t.Errorf("header %+v, want %+v", h, want)
			}
		})
	}
}

func TestOtherVersions(t *testing.T) {
	for _, version := range []uint32{0, 2, 3, 1 << 31} {
		h := Header{XID: 9, Version: version, Credits: 5, Proc: Msg}
		var got Header
		n, err := got.Decode(h.Append(nil))
		if n != 0 || !errors.Is(err, ErrVersion) || !equal(&got, &h) {
			t.Errorf("version %d: %+v, %d, %v", version, got, n, err)
		}
	}
}

// TestLimits decodes lists that are just within and just over each limit, and
// looks at what the header has grown to.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		want  error
		build func(n int) Header
	}{
		{"read segments", MaxReadSegments, errReadSegments, func(n int) Header {
			return Header{Reads: make([]ReadSegment, n)}
		}},
		{"write chunks", MaxWriteChunks, errWriteChunks, func(n int) Header {
			return Header{Writes: make([]WriteChunk, n)}
		}},
		{"segments of a write chunk", MaxSegments, errSegments, func(n int) Header {
			return Header{Writes: []WriteChunk{make(WriteChunk, n)}}
		}},
		{"segments of a reply chunk", MaxSegments, errSegments, func(n int) Header {
			return Header{HasReply: true, Reply: make(WriteChunk, n)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{c.limit, c.limit + 1, 10000} {
				h := c.build(n)
				h.Version = Version
				var got Header
				_, err := got.Decode(h.Append(nil))
				if n == c.limit && (err != nil || !equal(&got, &h)) {
					t.Errorf("%d: %v", n, err)
				}
				if n > c.limit && !errors.Is(err, c.want) {
					t.Errorf("%d: %v, want %v", n, err, c.want)
				}
				if room := cap(got.Reads) + cap(got.Writes) + cap(got.Reply); room > 2*c.limit {
					t.Errorf("%d: room for %d", n, room)
				}
			}
		})
	}
}

// TestDecodedHeaderIsIndependent changes the bytes after decoding them.
func TestDecodedHeaderIsIndependent(t *testing.T) {
	b := wiretest.Transcripts(t)["all-lists"].Header
	var h Header
	if _, err := h.Decode(b); err != nil {
		t.Fatal(err)
	}
	before := describe(&h, nil)
	for i := range b {
		b[i] ^= 0xff
	}
	if after := describe(&h, nil); after != before {
		t.Errorf("changed to:\n%s", after)
	}
}

func TestNoAllocations(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		var h Header
		buf := make([]byte, 0, 4096)
		var failed error
		allocs := testing.AllocsPerRun(100, func() {
			n, err := h.Decode(tr.Header)
			if err == nil {
				buf = h.Append(buf[:0])
				if n != len(buf) || h.Size() != n {
					failed = fmt.Errorf("%d bytes decoded, %d encoded, size %d", n, len(buf), h.Size())
				}
			}
		})
		if allocs != 0 || failed != nil {
			t.Errorf("%s: %v allocations, want none; %v", name, allocs, failed)
		}
	}
}

// FuzzDecode compares Decode with the naive decoder, and what Append makes of
// the result with the bytes that it came from.
func FuzzDecode(f *testing.F) {
	for _, tr := range wiretest.Transcripts(f) {
		f.Add(append(slices.Clone(tr.Header), tr.Rest...))
	}
	var h Header
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := h.Decode(b)
		want, wantN, ok := naiveDecode(b)
		if ok != (err == nil) {
			t.Fatalf("%v, but naively ok is %v", err, ok)
		}
		if err != nil {
			if n != 0 || !errors.Is(err, ErrShort) && len(h.Reads)+len(h.Writes)+len(h.Reply) != 0 {
				t.Fatalf("%d and %+v with error %v", n, h, err)
			}
			return
		}
		if n != wantN || !equal(&h, &want) {
			t.Fatalf("%+v of %d bytes, naively %+v of %d", h, n, want, wantN)
		}
		if again := h.Append(nil); !bytes.Equal(again, b[:n]) || h.Size() != n {
			t.Fatalf("size %d, encoded %x, was %x", h.Size(), again, b[:n])
		}
	})
}

// TestDecodeRefusal: ERR_VERS can be read in any version, and nothing else.
func TestDecodeRefusal(t *testing.T) {
	for _, version := range []uint32{0, 1, 2, 3, 1<<32 - 1} {
		want := Header{XID: 7, Version: version, Credits: 9, Proc: Error, Err: ErrVers, Low: 2, High: 5}
		b := want.Append(nil)
		got := Header{Reads: make([]ReadSegment, 3)}
		if !got.DecodeRefusal(b) || got.XID != 7 || got.Version != version || got.Credits != 9 || got.Err != ErrVers || got.Low != 2 || got.High != 5 || len(got.Reads) > 0 {
			t.Errorf("version %d: %+v", version, got)
		}
		other, call := want, want
		other.Err, call.Proc = ErrChunk, Msg
		for name, b := range map[string][]byte{"short": b[:15], "cut short": b[:27], "ERR_CHUNK": other.Append(nil), "MSG": call.Append(nil)} {
			if got.DecodeRefusal(b) {
				t.Errorf("version %d: %s is taken", version, name)
			}
		}
	}
}
