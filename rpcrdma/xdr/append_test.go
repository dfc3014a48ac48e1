package xdr

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/runtime"
)

func TestPad(t *testing.T) {
	for n, want := range []int{0, 3, 2, 1, 0, 3, 2, 1, 0} {
		if got := Pad(n); got != want {
			t.Errorf("Pad(%d) = %d, want %d", n, got, want)
		}
		if got := Padded(n); got != n+want || got%Unit != 0 {
			t.Errorf("Padded(%d) = %d, want %d", n, got, n+want)
		}
		if got := len(AppendOpaque(nil, make([]byte, n))); got != OpaqueSize(n) {
			t.Errorf("OpaqueSize(%d) = %d, but %d bytes are appended", n, OpaqueSize(n), got)
		}
	}
}

// TestAppend compares every encoder with another implementation's.
func TestAppend(t *testing.T) {
	oracle := func(write func(io.Writer) (int64, error)) []byte {
		var b bytes.Buffer
		if _, err := write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for n := range 10 {
		data := bytes.Repeat([]byte{0xa5}, n)
		for _, c := range []struct {
			name      string
			got, want []byte
		}{
			{"uint32", AppendUint32(nil, 0x80000000|uint32(n)), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteUnsignedInt(w, 0x80000000|uint32(n))
			})},
			{"uint64", AppendUint64(nil, 0xfedcba9800000000|uint64(n)), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteUnsignedHyper(w, 0xfedcba9800000000|uint64(n))
			})},
			{"bool", AppendBool(nil, n%2 == 1), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteBool(w, n%2 == 1)
			})},
			{"fixed", AppendFixed(nil, data), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteFixedLengthOpaque(w, data)
			})},
			{"opaque", AppendOpaque(nil, data), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteVariableLengthOpaque(w, 16, data)
			})},
			{"string", AppendString(nil, strings.Repeat("x", n)), oracle(func(w io.Writer) (int64, error) {
				return runtime.WriteUTF8String(w, 16, strings.Repeat("x", n))
			})},
		} {
			if !bytes.Equal(c.got, c.want) {
				t.Errorf("%s of %d bytes: %x, want %x", c.name, n, c.got, c.want)
			}
		}
	}
}

// TestAppendOverwritesOldPadding reuses a slice full of other bytes.
func TestAppendOverwritesOldPadding(t *testing.T) {
	old := bytes.Repeat([]byte{0xff}, 16)
	got := AppendOpaque(old[:0], []byte{1})
	if want := []byte{0, 0, 0, 1, 1, 0, 0, 0}; !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
