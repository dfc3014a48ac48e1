package oncrpc

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// records encodes each message as one record in fragments of at most n bytes.
func records(n int, msgs ...string) []byte {
	var b []byte
	for _, m := range msgs {
		for len(m) > n {
			b = append(AppendRecordMark(b, n, false), m[:n]...)
			m = m[n:]
		}
		b = append(AppendRecordMark(b, len(m), true), m...)
	}
	return b
}

func TestRecordReader(t *testing.T) {
	msgs := []string{"hello", "", "a longer message of several fragments", "x"}
	for _, fragment := range []int{1, 4, 7, 100} {
		r := NewRecordReader(iotest.OneByteReader(bytes.NewReader(records(fragment, msgs...))), 64)
		var buf []byte
		for _, want := range msgs {
			n, err := r.Next()
			if err != nil || n != min(len(want), fragment) {
				t.Fatalf("Next: %d, %v", n, err)
			}
			if r.Whole() != (len(want) <= fragment) {
				t.Fatalf("%q in fragments of %d: whole is %v", want, fragment, r.Whole())
			}
			if buf, err = r.Read(buf[:0]); err != nil || string(buf) != want {
				t.Fatalf("Read: %q, %v; want %q", buf, err, want)
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
}

func TestRecordReaderAppends(t *testing.T) {
	r := NewRecordReader(bytes.NewReader(records(3, "after")), 5)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if b, err := r.Read([]byte("before ")); err != nil || string(b) != "before after" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRecordReaderErrors(t *testing.T) {
	empty := bytes.Repeat([]byte{0, 0, 0, 0}, maxFragments+1)
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"nothing", nil, io.EOF},
		{"half a mark", []byte{0x80, 0}, io.ErrUnexpectedEOF},
		{"half a fragment", []byte{0x80, 0, 0, 4, 1, 2}, io.ErrUnexpectedEOF},
		{"no fragment", []byte{0x80, 0, 0, 4}, io.ErrUnexpectedEOF},
		{"no last fragment", []byte{0, 0, 0, 1, 1}, io.ErrUnexpectedEOF},
		{"half a second mark", []byte{0, 0, 0, 1, 1, 0x80}, io.ErrUnexpectedEOF},
		{"over the limit", []byte{0x80, 0, 0, 11}, ErrRecordTooLarge},
		{"2 GiB", []byte{0xff, 0xff, 0xff, 0xff}, ErrRecordTooLarge},
		{"over the limit together", records(6, "hello, world"), ErrRecordTooLarge},
		{"empty fragments without end", empty, ErrFragments},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRecordReader(bytes.NewReader(c.data), 10)
			_, err := r.Next()
			if err == nil {
				_, err = r.Read(nil)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestRecordMarkCostsNothing announces a record of the largest size and sends
// only its start.
func TestRecordMarkCostsNothing(t *testing.T) {
	const limit = 1 << 30
	data := append(AppendRecordMark(nil, limit, true), "start"...)
	r := NewRecordReader(bytes.NewReader(data), limit)
	if n, err := r.Next(); n != limit || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	b, err := r.Read(nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(b) != "start" || cap(b) > 2*growStep {
		t.Errorf("%q with room for %d, %v", b, cap(b), err)
	}
}

func TestRecordReaderDoesNotAllocate(t *testing.T) {
	data := records(10, "a message of some fragments")
	src := bytes.NewReader(data)
	r := NewRecordReader(src, 64)
	buf := make([]byte, 0, 64)
	var err error
	allocs := testing.AllocsPerRun(100, func() {
		src.Reset(data)
		if _, err = r.Next(); err == nil {
			buf, err = r.Read(buf[:0])
		}
	})
	if allocs != 0 || err != nil || len(buf) != 27 {
		t.Errorf("%v allocations, want none; %q, %v", allocs, buf, err)
	}
}

// FuzzRecordReader reads a stream in one piece and byte by byte, and encodes
// the records again.
func FuzzRecordReader(f *testing.F) {
	f.Add(records(4, "hello", "", "world"))
	f.Add(records(100, "hello"))
	f.Add([]byte{0x80, 0, 0, 200})
	f.Add([]byte{0, 0, 0, 0, 0x80, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 100
		read := func(src io.Reader) (msgs []string, err error) {
			r := NewRecordReader(src, limit)
			for {
				if _, err = r.Next(); err != nil {
					return msgs, err
				}
				var b []byte
				if b, err = r.Read(nil); err != nil {
					return msgs, err
				}
				if len(b) > limit {
					t.Fatalf("record of %d bytes", len(b))
				}
				msgs = append(msgs, string(b))
			}
		}
		msgs, err := read(bytes.NewReader(data))
		slow, slowErr := read(iotest.OneByteReader(bytes.NewReader(data)))
		if len(msgs) != len(slow) || !errors.Is(slowErr, err) {
			t.Fatalf("%d records and %v, byte by byte %d and %v", len(msgs), err, len(slow), slowErr)
		}
		again, err := read(bytes.NewReader(records(7, msgs...)))
		if !errors.Is(err, io.EOF) || len(again) != len(msgs) {
			t.Fatalf("%d records encoded, %d and %v come back", len(msgs), len(again), err)
		}
		for i := range again {
			if again[i] != msgs[i] || slow[i] != msgs[i] {
				t.Fatalf("record %d is %q, %q and %q", i, msgs[i], slow[i], again[i])
			}
		}
	})
}
