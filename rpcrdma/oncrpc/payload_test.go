package oncrpc

import (
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func TestPayloadOpaque(t *testing.T) {
	inline := unhex(t, "00000001 00000005 68656c6c 6f000000 00000009")
	reduced := unhex(t, "00000001 00000005 00000009")
	for _, c := range []struct {
		name    string
		payload Payload
		limit   int
		err     error
	}{
		{"inline", Payload{Stream: inline}, 5, nil},
		{"apart", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello")}}}, 5, nil},
		{"apart with some roundup", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello\x00")}}}, 5, nil},
		{"apart with its roundup", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello\x00\x00\x00")}}}, 5, nil},
		{"second of two", Payload{Stream: reduced, Items: []Item{{Pos: 4, Data: nil}, {Pos: 8, Data: []byte("hello")}}}, 5, nil},
		{"in parts", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("he"), More: [][]byte{[]byte("l"), []byte("lo")}}}}, 5, nil},
		{"in parts with roundup", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hell"), More: [][]byte{[]byte("o\x00\x00\x00")}}}}, 5, nil},
		{"in parts, roundup apart", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello"), More: [][]byte{[]byte("\x00")}}}}, 5, nil},
		{"in too short parts", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("he"), More: [][]byte{[]byte("ll")}}}}, 5, errItemLength},
		{"inline over the limit", Payload{Stream: inline}, 4, xdr.ErrLimit},
		{"apart over the limit", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello")}}}, 4, xdr.ErrLimit},
		{"too short an item", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hell")}}}, 5, errItemLength},
		{"too long an item", Payload{Stream: reduced, Items: []Item{{Pos: 8, Data: []byte("hello\x00\x00\x00\x00")}}}, 5, errItemLength},
		{"neither", Payload{Stream: reduced}, 5, xdr.ErrShort},
		{"item elsewhere", Payload{Stream: reduced, Items: []Item{{Pos: 4, Data: []byte("hello")}}}, 5, xdr.ErrShort},
		{"cut off", Payload{Stream: reduced[:4]}, 5, xdr.ErrShort},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := xdr.NewDecoder(c.payload.Stream)
			d.Uint32()
			b := c.payload.Opaque(&d, c.limit)
			if !errors.Is(d.Err(), c.err) {
				t.Fatalf("error %v, want %v", d.Err(), c.err)
			}
			if c.err != nil {
				if b != nil {
					t.Errorf("%q with an error", b)
				}
				return
			}
			if string(b) != "hello" || cap(b) != 5 {
				t.Errorf("%q with capacity %d", b, cap(b))
			}
			if v := d.Uint32(); v != 9 || d.Err() != nil {
				t.Errorf("after it %d, %v", v, d.Err())
			}
		})
	}
}

// TestPayloadParts: what Opaque gives in one piece, Parts gives where it is.
func TestPayloadParts(t *testing.T) {
	apart := func(parts ...string) Payload {
		it := Item{Pos: 4, Data: []byte(parts[0])}
		for _, p := range parts[1:] {
			it.More = append(it.More, []byte(p))
		}
		return Payload{Stream: unhex(t, "00000005"), Items: []Item{it}}
	}
	for _, c := range []struct {
		payload Payload
		want    []string
	}{
		{Payload{Stream: unhex(t, "00000005 68656c6c 6f000000")}, []string{"hello"}},
		{apart("hello"), []string{"hello"}},
		{apart("hello\x00\x00\x00"), []string{"hello"}},
		{apart("he", "l", "", "lo\x00"), []string{"he", "l", "lo"}},
		{apart("hello", "\x00\x00\x00"), []string{"hello"}},
		{apart("hell"), nil},
		{apart("hello", "\x00\x00\x00\x00"), nil},
	} {
		d := xdr.NewDecoder(c.payload.Stream)
		var got []string
		for _, part := range c.payload.Parts(nil, &d, 5) {
			got = append(got, string(part))
		}
		if !slices.Equal(got, c.want) || (d.Err() != nil) != (c.want == nil) {
			t.Errorf("%q, %v, want %q", got, d.Err(), c.want)
		}
	}
}
