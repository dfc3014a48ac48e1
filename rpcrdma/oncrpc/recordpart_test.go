package oncrpc

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// fragments makes a record of fragments of these lengths, of bytes counting up.
func fragments(sizes ...int) (record, content []byte) {
	for i, n := range sizes {
		record = AppendRecordMark(record, n, i == len(sizes)-1)
		for range n {
			content = append(content, byte(len(content)))
			record = append(record, byte(len(content)-1))
		}
	}
	return record, content
}

func TestRecordInParts(t *testing.T) {
	for _, sizes := range [][]int{{0}, {1}, {100}, {3, 0, 0, 5, 92}, {50, 50, 0}, {0, 0}} {
		for _, step := range []int{1, 7, 200} {
			record, want := fragments(sizes...)
			again, _ := fragments(4)
			r := NewRecordReader(iotest.HalfReader(bytes.NewReader(append(record, again...))), 1000)
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			var got []byte
			b := make([]byte, step)
			for {
				n, err := r.ReadPart(b)
				got = append(got, b[:n]...)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || n == 0 {
					t.Fatalf("%v: %d, %v", sizes, n, err)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v by %d: %v", sizes, step, got)
			}
			if left, err := r.Fragment(); left != 0 || err != nil {
				t.Errorf("%v: %d left, %v", sizes, left, err)
			}
			if n, err := r.Next(); n != 4 || err != nil {
				t.Errorf("%v: the next has %d, %v", sizes, n, err)
			}
		}
	}
}

func TestRecordPartsEnd(t *testing.T) {
	record, _ := fragments(3, 2)
	r := NewRecordReader(bytes.NewReader(record), 1000)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if err := r.ReadParts(make([]byte, 4)); err != nil {
		t.Error(err)
	}
	if err := r.ReadParts(make([]byte, 2)); !errors.Is(err, io.EOF) {
		t.Errorf("beyond the record: %v", err)
	}
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"torn in a fragment":     {record[:6], io.ErrUnexpectedEOF},
		"torn between fragments": {record[:7], io.ErrUnexpectedEOF},
		"torn in a mark":         {record[:9], io.ErrUnexpectedEOF},
		"over the limit":         {append(AppendRecordMark(nil, 1, false), 0, 0x7f, 0xff, 0xff, 0xff), ErrRecordTooLarge},
		"fragments for ever":     {bytes.Repeat([]byte{0, 0, 0, 0}, maxFragments+1), ErrFragments},
	} {
		r := NewRecordReader(bytes.NewReader(c.stream), 1000)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if err := r.ReadParts(make([]byte, 100)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
