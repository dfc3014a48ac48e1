package xdr

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/runtime"
)

func TestDecodeErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		data   []byte
		decode func(*Decoder)
		want   error
		off    int // where the decoder stands afterwards
	}{
		{"uint32 of nothing", nil, func(d *Decoder) { d.Uint32() }, ErrShort, 0},
		{"uint32 of 3 bytes", make([]byte, 3), func(d *Decoder) { d.Uint32() }, ErrShort, 0},
		{"uint64 of 7 bytes", make([]byte, 7), func(d *Decoder) { d.Uint64() }, ErrShort, 0},
		{"bool 2", []byte{0, 0, 0, 2}, func(d *Decoder) { d.Bool() }, ErrBool, 4},
		{"bool with a high bit", []byte{1, 0, 0, 1}, func(d *Decoder) { d.Bool() }, ErrBool, 4},
		{"opaque without its bytes", []byte{0, 0, 0, 1}, func(d *Decoder) { d.Opaque(8) }, ErrShort, 4},
		{"opaque without its roundup", []byte{0, 0, 0, 1, 9, 0, 0}, func(d *Decoder) { d.Opaque(8) }, ErrShort, 4},
		{"opaque over its limit", []byte{0, 0, 0, 9}, func(d *Decoder) { d.Opaque(8) }, ErrLimit, 4},
		{"opaque of 4 GiB", []byte{255, 255, 255, 255}, func(d *Decoder) { d.Opaque(math.MaxInt) }, ErrShort, 4},
		{"string over its limit", []byte{0, 0, 0, 9}, func(d *Decoder) { d.String(8) }, ErrLimit, 4},
		{"fixed of too many bytes", make([]byte, 8), func(d *Decoder) { d.Fixed(9) }, ErrShort, 0},
		{"fixed of a huge size", make([]byte, 8), func(d *Decoder) { d.Fixed(math.MaxInt) }, ErrShort, 0},
		{"fixed of a negative size", make([]byte, 8), func(d *Decoder) { d.Fixed(-1) }, ErrShort, 0},
		{"array longer than the data", []byte{0, 0, 0, 2, 0, 0, 0, 0}, func(d *Decoder) { d.Count(8, 4) }, ErrShort, 4},
		{"array over its limit", []byte{0, 0, 0, 2, 0, 0, 0, 0}, func(d *Decoder) { d.Count(1, 4) }, ErrLimit, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(c.data)
			c.decode(&d)
			if !errors.Is(d.Err(), c.want) {
				t.Errorf("error %v, want %v", d.Err(), c.want)
			}
			if d.Offset() != c.off {
				t.Errorf("offset %d, want %d", d.Offset(), c.off)
			}
		})
	}
}

func TestFirstErrorSticks(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3})
	if d.Bool() || !errors.Is(d.Err(), ErrBool) {
		t.Fatalf("boolean 7: error %v", d.Err())
	}
	d.Fail(ErrLimit)
	if v := d.Uint32(); v != 0 {
		t.Errorf("Uint32 after a failure: %d", v)
	}
	if v := d.Uint64(); v != 0 {
		t.Errorf("Uint64 after a failure: %d", v)
	}
	if d.Opaque(4) != nil || d.Fixed(4) != nil || d.String(4) != "" || d.Bool() || d.Count(4, 4) != 0 {
		t.Error("a value after a failure")
	}
	if !errors.Is(d.Err(), ErrBool) || d.Offset() != 4 || d.Len() != 12 || len(d.Rest()) != 12 {
		t.Errorf("error %v at %d, %d left", d.Err(), d.Offset(), d.Len())
	}
}

func TestOpaqueAliases(t *testing.T) {
	data := []byte{0, 0, 0, 2, 'h', 'i', 0, 0, 0, 0, 0, 5}
	d := NewDecoder(data)
	b := d.Opaque(2)
	if string(b) != "hi" || cap(b) != 2 || &b[0] != &data[4] {
		t.Errorf("got %q with capacity %d", b, cap(b))
	}
	if v := d.Uint32(); v != 5 || d.Err() != nil || d.Len() != 0 {
		t.Errorf("after it %d, %v, %d left", v, d.Err(), d.Len())
	}
}

// FuzzDecode reads the same bytes with another implementation.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x', 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3})
	f.Add([]byte{0, 0, 0, 4, 'a', 'b', 'c', 'd', 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c'})
	f.Add([]byte{0, 0, 16, 1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 4096
		d := NewDecoder(data)
		r := bytes.NewReader(data)
		for d.Err() == nil && d.Len() > 0 {
			opaque := d.Opaque(limit)
			want, n, err := runtime.ReadVariableLengthOpaque(r, limit)
			if compare(t, &d, err) {
				return
			}
			if !bytes.Equal(opaque, want) {
				t.Fatalf("opaque %x, want %x (%d bytes)", opaque, want, n)
			}
			flag := d.Bool()
			wantFlag, _, err := runtime.ReadBool(r)
			if compare(t, &d, err) {
				return
			}
			if flag != wantFlag {
				t.Fatalf("bool %v", flag)
			}
			long := d.Uint64()
			wantLong, _, err := runtime.ReadUnsignedHyper(r)
			if compare(t, &d, err) {
				return
			}
			if long != wantLong || d.Len() != r.Len() {
				t.Fatalf("hyper %x, want %x; %d bytes left, want %d", long, wantLong, d.Len(), r.Len())
			}
		}
	})
}

// compare says whether decoding has ended, and fails when only one of the two
// has ended. The oracle alone refuses roundup bytes that are not zero.
func compare(t *testing.T, d *Decoder, oracle error) (ended bool) {
	t.Helper()
	if d.Err() != nil && oracle == nil {
		t.Fatalf("refused at %d although well-formed: %v", d.Offset(), d.Err())
	}
	if d.Err() == nil && oracle != nil {
		for i := d.Offset() - 3; i < d.Offset(); i++ {
			if d.buf[i] != 0 {
				return true
			}
		}
		t.Fatalf("accepted up to %d although malformed: %v", d.Offset(), oracle)
	}
	return oracle != nil
}

func TestNoAllocations(t *testing.T) {
	data := make([]byte, 64)
	opaque := []byte("seven b")
	var sum int
	allocs := testing.AllocsPerRun(100, func() {
		b := AppendUint32(data[:0], 1)
		b = AppendUint64(b, 2)
		b = AppendBool(b, true)
		b = AppendOpaque(b, opaque)
		d := NewDecoder(b)
		sum = int(d.Uint32()) + int(d.Uint64())
		if d.Bool() {
			sum += len(d.Opaque(8))
		}
	})
	if allocs != 0 || sum != 1+2+7 {
		t.Errorf("%v allocations, want none; sum %d", allocs, sum)
	}
}
