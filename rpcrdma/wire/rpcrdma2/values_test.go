package rpcrdma2

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/xdrin"
	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

var allCharacteristics = []CharID{
	CharReceiveSize, CharInvalidation, CharBackward, CharRTR, CharReceiveBuffer, CharRequestReceive, CharResponseSend,
}

// TestValuesRoundTrip tells drawn values one by one.
func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Values{
			ReceiveSize: word(t, "size"), Invalidation: rapid.Bool().Draw(t, "invalidation"),
			Backward: Backward(rapid.Uint32Range(0, 2).Draw(t, "backward")), RTR: RTR(word(t, "rtr")),
			RequestReceive: word(t, "6"), ResponseSend: word(t, "7"),
		}
		if rapid.Bool().Draw(t, "structured") {
			want.Buffer.Length = word(t, "length")
			want.Buffer.Groups = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) BufferGroup {
				return BufferGroup{Count: word(t, "count"), Length: word(t, "length"), Align: word(t, "align"), Flags: word(t, "flags")}
			}), 1, 4).Draw(t, "groups")
		}
		got := Values{ReceiveSize: 1, Invalidation: true, Backward: BackwardGeneral, Buffer: Buffer{Groups: make([]BufferGroup, 3)}}
		for _, id := range allCharacteristics {
			if known, err := got.Set(want.Encode(id)); !known || err != nil {
				t.Fatalf("characteristic %d: %v, %v", id, known, err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

func TestValues(t *testing.T) {
	odd := func() Values {
		return Values{1, true, BackwardNone, 7, Buffer{9, []BufferGroup{{1, 2, 3, 4}}}, 5, 6}
	}
	v, def := odd(), DefaultValues()
	for _, id := range allCharacteristics {
		before := v
		if known, err := v.Set(Characteristic{ID: id}); !known || err != nil || reflect.DeepEqual(v, before) {
			t.Errorf("characteristic %d without data: %+v, %v, %v", id, v, known, err)
		}
	}
	if !reflect.DeepEqual(v, def) || v.ReceiveSize != 4096 || v.Backward != BackwardInline || v.RequestReceive != 1 || v.ResponseSend != 1 {
		t.Errorf("defaults %+v, want %+v", v, def)
	}
	for _, c := range []struct {
		name  string
		id    CharID
		data  string
		known bool
		want  error
	}{
		{"unknown", 8, "00", false, nil},
		{"experiment", CharExperimentalLow + 1, "ff", false, nil},
		{"experiment by default", CharExperimentalLow, "", false, nil},
		{"size of 3 bytes", CharReceiveSize, "000000", true, errTruncated},
		{"size of 8 bytes", CharReceiveSize, "0000100000001000", true, errTrailing},
		{"invalidation 2", CharInvalidation, "00000002", true, errPresent},
		{"backward level 3", CharBackward, "00000003", true, errValue},
		{"buffer without groups' count", CharReceiveBuffer, "00001000", true, errTruncated},
		{"buffer of more groups than there are", CharReceiveBuffer, "00001000 00000001 00000001", true, errTruncated},
		{"limit of 1 byte", CharRequestReceive, "01", true, errTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, before := odd(), odd()
			known, err := v.Set(Characteristic{ID: c.id, Data: wiretest.Unhex(t, c.data)})
			if known != c.known || !errors.Is(err, c.want) || !reflect.DeepEqual(v, before) {
				t.Errorf("%v, %v, %+v; want %v, %v and no change", known, err, v, c.known, c.want)
			}
		})
	}
}

func TestSubset(t *testing.T) {
	var s Subset
	for _, n := range []int{33, 0, 63} {
		s = s.Add(n)
	}
	for n := range 70 {
		if want := n == 0 || n == 33 || n == 63; s.Has(n) != want {
			t.Errorf("element %d: %v", n, s.Has(n))
		}
		if want := n == 64 || n > 64; s.Within(n) != want {
			t.Errorf("within %d: %v", n, s.Within(n))
		}
	}
	if got := text(s); got != text(Subset{1, 1<<31 | 2}) {
		t.Errorf("words %s", got)
	}
	if none := (Subset{0, 0}); !none.Within(0) || none.Has(0) {
		t.Error("a subset of nothing")
	}
}

func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		sets []ResultSet
		want bool
	}{
		{nil, true},
		{[]ResultSet{{Begin: 4, End: 4}}, true},
		{[]ResultSet{{Begin: 8, End: 4}}, false},
		{[]ResultSet{{Begin: 0, End: 4}, {Begin: 4, End: 8}}, true},
		{[]ResultSet{{Begin: 0, End: 5}, {Begin: 4, End: 8}}, false},
		{[]ResultSet{{Begin: 8, End: 9}, {Begin: 0, End: 4}}, false},
	} {
		if got := Ordered(c.sets); got != c.want {
			t.Errorf("%+v: %v", c.sets, got)
		}
	}
}

// FuzzValues compares each characteristic with what goxdr made of its type.
func FuzzValues(f *testing.F) {
	for _, id := range allCharacteristics {
		v := Values{7, true, BackwardGeneral, 7, Buffer{9, []BufferGroup{{1, 2, 3, 4}, {5, 6, 7, 8}}}, 5, 6}
		f.Add(uint32(id), v.Encode(id).Data)
	}
	f.Fuzz(func(t *testing.T, id uint32, b []byte) {
		make, ok := characteristics[CharID(id)]
		if !ok || len(b) == 0 {
			return
		}
		v := DefaultValues()
		known, err := v.Set(Characteristic{ID: CharID(id), Data: b})
		if err != nil && strings.Contains(err.Error(), "too many") {
			return
		}
		theirs := make()
		n, oerr := xdrin.Decode(b, theirs)
		if !known || (err == nil) != (oerr == nil && n == len(b)) {
			t.Fatalf("%v, but the oracle says %v after %d of %d bytes", err, oerr, n, len(b))
		}
		if err == nil && (CharID(id) != CharReceiveBuffer || len(v.Buffer.Groups) > 0) {
			if c := v.Encode(CharID(id)); !bytes.Equal(c.Data, b) {
				t.Fatalf("%+v encoded %x, was %x", v, c.Data, b)
			}
		}
	})
}
