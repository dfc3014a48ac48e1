package rpcrdma2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/goxdrtest"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/xdrin"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

// TestRoundTrip draws headers of every type. One header decodes them all, so
// that nothing of an earlier one may be left in a later one.
func TestRoundTrip(t *testing.T) {
	var reused Header
	rapid.Check(t, func(t *rapid.T) {
		want := drawHeader(t)
		encoded := want.Append(nil)
		if len(encoded) != want.Size() {
			t.Fatalf("size %d, but %d bytes", want.Size(), len(encoded))
		}
		n, err := reused.Decode(append(encoded, "RPC message"...))
		if err != nil || n != len(encoded) || text(&reused) != text(&want) {
			t.Fatalf("decoded %+v, %d bytes, %v; want %+v, %d bytes", reused, n, err, want, len(encoded))
		}
	})
}

// sizeOf is the size that a body tells, or that of its encoding if it tells none.
func sizeOf(b Body) int {
	if b, tells := b.(interface{ Size() int }); tells {
		return b.Size()
	}
	return len(b.Append(nil))
}

// text is a header or a body to be compared: an empty list and none are the same.
func text(v any) string { return fmt.Sprintf("%+v", v) }

// TestRoundTripBodies does the same with the bodies of operations, alone and
// in their headers.
func TestRoundTripBodies(t *testing.T) {
	for opt, b := range bodies {
		t.Run(b.name, func(t *testing.T) {
			reused := b.ours()
			rapid.Check(t, func(t *rapid.T) {
				want := drawBody(t, opt)
				encoded := want.Append(nil)
				if len(encoded) != sizeOf(want) || want.Type() != opt {
					t.Fatalf("size %d, but %d bytes; type %d", sizeOf(want), len(encoded), want.Type())
				}
				if err := reused.Decode(encoded); err != nil || text(reused) != text(want) {
					t.Fatalf("decoded %+v, %v; want %+v", reused, err, want)
				}
				h := Header{Header: rpcrdma1.Header{XID: 1, Version: Version, Proc: Optional}, Option: opt, Info: encoded}
				if got := h.Append(nil); len(got) != h.Size() || len(got) != OptionalSize(sizeOf(want)) {
					t.Fatalf("in a header %x of size %d", got, h.Size())
				}
			})
		})
	}
}

func TestDecodeMalformed(t *testing.T) {
	const prefix = "00000007 00000002 00000020 "
	for _, c := range []struct {
		name string
		data string
		want error
	}{
		{"MSGP", prefix + "00000002 00000000 00000000 00000000 00000000", errProc},
		{"DONE", prefix + "00000003", errProc},
		{"header type 6", prefix + "00000006 00000000 00000000 00000000", errProc},
		{"largest header type", prefix + "ffffffff 00000000 00000000 00000000", errProc},
		{"no direction", prefix + "00000000", errTruncated},
		{"direction 2", prefix + "00000000 00000002 00000000 00000000 00000000", errDirection},
		{"version 1's lists", prefix + "00000000 00000000 00000000 00000000", nil},
		{"read list word 2", prefix + "00000001 00000000 00000002 00000000 00000000", nil},
		{"reply chunk of 4 Gi segments", prefix + "00000000 00000000 00000000 00000000 00000001 ffffffff", nil},
		{"error code 0", prefix + "00000004 00000000", errCode},
		{"error code 4", prefix + "00000004 00000004", errCode},
		{"error without a code", prefix + "00000004", errTruncated},
		{"ERR_VERS without its range", prefix + "00000004 00000001 00000001", errTruncated},
		{"option of direction 2", prefix + "00000005 00000002 00000001 00000000", errDirection},
		{"option without its length", prefix + "00000005 00000000 00000001", errTruncated},
		{"option shorter than its length", prefix + "00000005 00000000 00000001 00000005 00000000", errTruncated},
		{"option without its roundup", prefix + "00000005 00000000 00000001 00000001 00", errTruncated},
		{"option longer than the limit", prefix + "00000005 00000000 00000001 00010001 00000000", errCount},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Header{
				Header:    rpcrdma1.Header{Reads: make([]ReadSegment, 1), Writes: make([]WriteChunk, 1), Reply: make(WriteChunk, 1), HasReply: true},
				Direction: Reply, Option: 3, Info: []byte{1},
			}
			n, err := h.Decode(wiretest.Unhex(t, c.data))
			if n != 0 || !errors.Is(err, ErrMalformed) || (c.want != nil && !errors.Is(err, c.want)) {
				t.Errorf("%d, %v; want 0, %v", n, err, c.want)
			}
			p, _ := rpcrdma1.DecodePrefix(wiretest.Unhex(t, c.data))
			want := Header{Header: rpcrdma1.Header{XID: 7, Version: 2, Credits: 32, Proc: p.Proc}}
			if text(&h) != text(&want) {
				t.Errorf("header %+v, want %+v", h, want)
			}
		})
	}
}

func TestOtherVersions(t *testing.T) {
	for _, version := range []uint32{0, 1, 3, 1 << 31} {
		h := Header{Header: rpcrdma1.Header{XID: 9, Version: version, Credits: 5, Proc: Msg}}
		var got Header
		n, err := got.Decode(h.Append(nil))
		if n != 0 || !errors.Is(err, rpcrdma1.ErrVersion) || text(&got) != text(&h) {
			t.Errorf("version %d: %+v, %d, %v", version, got, n, err)
		}
	}
	var h Header
	if _, err := h.Decode(make([]byte, rpcrdma1.PrefixSize-1)); !errors.Is(err, rpcrdma1.ErrShort) {
		t.Errorf("without a prefix: %v", err)
	}
}

// FuzzHeader compares Decode with what goxdr made of the XDR, and what Append
// makes of the result with the oracle's bytes.
func FuzzHeader(f *testing.F) {
	for _, tr := range wiretest.Transcripts(f) {
		f.Add(append(slices.Clone(tr.Header), tr.Rest...))
	}
	var h Header
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := h.Decode(b)
		if err != nil && strings.Contains(err.Error(), "too many") { // limits of our own
			return
		}
		var o goxdr.Rpcrdma2_xprt_hdr
		want, oerr := xdrin.Decode(b, &o)
		if (err == nil) != (oerr == nil && o.Rdma_vers == Version) {
			t.Fatalf("%v, but the oracle says %v", err, oerr)
		}
		if err != nil {
			if n != 0 || len(h.Reads)+len(h.Writes)+len(h.Reply)+len(h.Info) != 0 && !errors.Is(err, rpcrdma1.ErrShort) {
				t.Fatalf("%d and %+v with error %v", n, h, err)
			}
			return
		}
		again := h.Append(nil)
		if n != want || !bytes.Equal(again, goxdrtest.Encode(&o)) || h.Size() != n {
			t.Fatalf("%+v of %d bytes, %d in the oracle; encoded %x, oracle %x", h, n, want, again, goxdrtest.Encode(&o))
		}
	})
}

// FuzzBody does the same for the bodies of operations.
func FuzzBody(f *testing.F) {
	for _, tr := range wiretest.Transcripts(f) {
		var h Header
		if _, err := h.Decode(tr.Header); err == nil && h.Proc == Optional {
			f.Add(uint32(h.Option), h.Info)
		}
	}
	f.Fuzz(func(t *testing.T, opt uint32, b []byte) {
		kind, ok := bodies[OptType(opt)]
		if !ok {
			return
		}
		ours, theirs := kind.ours(), kind.oracle()
		err := ours.Decode(b)
		if err != nil && strings.Contains(err.Error(), "too many") {
			return
		}
		n, oerr := xdrin.Decode(b, theirs)
		if (err == nil) != (oerr == nil && n == len(b)) {
			t.Fatalf("%v, but the oracle says %v after %d of %d bytes", err, oerr, n, len(b))
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("%v is not ErrMalformed", err)
			}
			return
		}
		again := ours.Append(nil)
		if !bytes.Equal(again, goxdrtest.Encode(theirs)) || sizeOf(ours) != len(again) {
			t.Fatalf("%+v of size %d encoded %x, oracle %x", ours, sizeOf(ours), again, goxdrtest.Encode(theirs))
		}
	})
}
