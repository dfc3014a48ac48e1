package oncrpc

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func TestPaddingBefore(t *testing.T) {
	for _, c := range []struct {
		pad          Padding
		off, n, want int
	}{
		{Padding{}, 5, 100, 0},
		{Padding{Align: 512, Thresh: 100, Base: 36}, 100, 100, 376},
		{Padding{Align: 512, Thresh: 100, Base: 36}, 100, 99, 0},
		{Padding{Align: 512, Thresh: 0, Base: 36}, 476, 0, 0},
		{Padding{Align: 512, Thresh: 0, Base: 36}, 480, 0, 508},
		{Padding{Align: 1, Base: 36}, 100, 1, 0},
		{Padding{Align: 65536, Base: 36}, 0, 1, 65500},
		{Padding{Align: 4096, Thresh: 1 << 31}, 4, 1 << 20, 0},
	} {
		if got := c.pad.Before(c.off, c.n); got != c.want {
			t.Errorf("%+v at %d, %d bytes: %d, want %d", c.pad, c.off, c.n, got, c.want)
		}
	}
}

// padded is the stream: a word, an opaque of 3 bytes, one of 8, a word; the
// message begins 36 bytes into the Send. Opaques of 8 and more are at
// multiples of 64.
func padded() Payload {
	b := []byte{0, 0, 0, 1, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 8}
	b = append(b, make([]byte, 64-36-len(b))...)
	b = append(b, "12345678\x00\x00\x00\x02"...)
	return Payload{Stream: b, Padding: Padding{Align: 64, Thresh: 8, Base: 36}}
}

func TestPaddedOpaques(t *testing.T) {
	p := padded()
	d := xdr.NewDecoder(p.Stream)
	first, small, large, last := d.Uint32(), p.Opaque(&d, 10), p.Opaque(&d, 10), d.Uint32()
	if d.Err() != nil || first != 1 || string(small) != "abc" || string(large) != "12345678" || last != 2 || d.Len() != 0 {
		t.Errorf("%d %q %q %d, %v", first, small, large, last, d.Err())
	}
	if &large[0] != &p.Stream[28] {
		t.Error("the data was copied")
	}
}

// TestPaddedOpaquesCutShort: padding, or data behind it, that is not there.
func TestPaddedOpaquesCutShort(t *testing.T) {
	whole := padded()
	for n := range whole.Stream[:len(whole.Stream)-4] {
		p := Payload{Stream: whole.Stream[:n], Padding: whole.Padding}
		d := xdr.NewDecoder(p.Stream)
		d.Uint32()
		p.Opaque(&d, 10)
		if b := p.Opaque(&d, 10); b != nil || !errors.Is(d.Err(), xdr.ErrShort) {
			t.Errorf("first %d bytes: %q, %v", n, b, d.Err())
		}
	}
}

func TestDecodePaddedCall(t *testing.T) {
	c := Call{XID: 1, Program: 2, Version: 3, Procedure: 4, Cred: Auth{1, []byte("credential12")}}
	plain := AppendCall(nil, &c)
	pad := Padding{Align: 64, Thresh: 12, Base: 36}
	msg := append([]byte(nil), plain[:32]...)
	msg = append(append(msg, make([]byte, 60)...), plain[32:]...)
	var got Call
	n, err := DecodePaddedCall(msg, &pad, &got)
	if err != nil || n != len(msg) || !bytes.Equal(got.Cred.Body, c.Cred.Body) || got.Verf.Flavor != 0 || len(got.Verf.Body) != 0 {
		t.Errorf("%d, %v: %+v", n, err, got)
	}
	for n := range msg {
		if _, err := DecodePaddedCall(msg[:n], &pad, &got); !errors.Is(err, ErrMalformed) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}
