package ddp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

var headers = []struct {
	wire string
	h    Header
}{
	{"c140 11223344 0102030405060708", Header{Tagged: true, Last: true, ULP: 0x40, STag: 0x11223344, TO: 0x0102030405060708}},
	{"8142 00000001 ffffffffffffffff", Header{Tagged: true, ULP: 0x42, STag: 1, TO: 1<<64 - 1}},
	{"4143 00000000 00000000 00000001 00000000", Header{Last: true, ULP: 0x43, MSN: 1}},
	{"0144 cafebabe 00000000 00000007 00010000", Header{ULP: 0x44, ULP2: 0xcafebabe, MSN: 7, MO: 0x10000}},
	{"4147 00000000 00000002 00000001 00000000", Header{Last: true, ULP: 0x47, QN: QueueTerminate, MSN: 1}},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHeader(t *testing.T) {
	for _, c := range headers {
		wire := unhex(t, c.wire)
		if got := c.h.Append(nil); !bytes.Equal(got, wire) || len(got) != c.h.Size() {
			t.Errorf("%+v: encoded %x, want %x", c.h, got, wire)
		}
		got := Header{ULP: 99, STag: 99, TO: 99, ULP2: 99, QN: 99, MSN: 99, MO: 99}
		n, err := got.Decode(append(wire, 5, 5))
		if err != nil || n != len(wire) || got != c.h {
			t.Errorf("%s: decoded %+v from %d bytes, %v", c.wire, got, n, err)
		}
		for i := range wire {
			if n, err := got.Decode(wire[:i]); !errors.Is(err, ErrShort) || n != 0 {
				t.Errorf("%s: %d bytes: took %d, %v", c.wire, i, n, err)
			}
		}
	}
}

// TestVersion: with another version the buffer model must still be known, for the Terminate.
func TestVersion(t *testing.T) {
	for _, control := range []byte{0xc0, 0xc2, 0x43, 0x00} {
		var h Header
		n, err := h.Decode([]byte{control})
		if !errors.Is(err, ErrVersion) || n != 0 || h.Tagged != (control&flagTagged != 0) || h.Last != (control&flagLast != 0) {
			t.Errorf("control %#x: %+v, took %d, %v", control, h, n, err)
		}
	}
}

func TestHeaderAllocations(t *testing.T) {
	buf := make([]byte, 0, UntaggedSize)
	var h Header
	if n := testing.AllocsPerRun(100, func() {
		for i := range headers {
			if _, err := h.Decode(headers[i].h.Append(buf)); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range headers {
		f.Add(unhex(f, c.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		n, err := h.Decode(b)
		if err != nil {
			return
		}
		if n > len(b) || n != h.Size() {
			t.Fatalf("took %d of %d bytes, header has %d", n, len(b), h.Size())
		}
		var again Header
		if _, err := again.Decode(h.Append(nil)); err != nil || again != h {
			t.Fatalf("decoded %+v, then %+v, %v", h, again, err)
		}
	})
}
