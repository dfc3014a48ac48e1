package trace

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestRing compares a ring with a simple queue. Events come out in order and
// with their bytes. An empty ring takes any event that fits its buffer.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 64
		r := newRing(rapid.IntRange(1, 8).Draw(t, "slots"), size)
		var model [][]byte
		next, used := byte(0), 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				data := bytes.Repeat([]byte{next}, rapid.IntRange(0, size+8).Draw(t, "length"))
				next++
				cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
				snap := rapid.IntRange(0, size+8).Draw(t, "snap")
				kept := data[:min(snap, len(data))]
				ok := r.push(&Event{Length: len(data)}, [][]byte{data[:cut], data[cut:]}, snap)
				switch {
				case ok && (len(model) == len(r.slots) || used+len(kept) > size):
					t.Fatalf("took an event of %d bytes beside %d events of %d", len(kept), len(model), used)
				case !ok && len(model) == 0 && len(kept) <= size:
					t.Fatalf("refused %d bytes though empty", len(kept))
				case ok:
					model, used = append(model, kept), used+len(kept)
				}
			} else if len(model) > 0 {
				if got := r.oldest().Data; !bytes.Equal(got, model[0]) {
					t.Fatalf("got % x, want % x", got, model[0])
				}
				used -= len(model[0])
				model = model[1:]
				r.pop()
			}
			if r.n != len(model) || r.spans > size || r.spans < used {
				t.Fatalf("%d events and %d bytes, want %d and at least %d", r.n, r.spans, len(model), used)
			}
		}
		for _, want := range model {
			if got := r.oldest().Data; !bytes.Equal(got, want) {
				t.Fatalf("got % x, want % x", got, want)
			}
			r.pop()
		}
	})
}

// TestRingUsesItsBuffer checks that two events of a third of the buffer always
// fit.
func TestRingUsesItsBuffer(t *testing.T) {
	r := newRing(16, 300)
	for i := range uint32(1000) {
		data := binary.BigEndian.AppendUint32(make([]byte, 0, 100), i)[:100]
		if !r.push(&Event{Length: 100}, [][]byte{data}, 100) {
			t.Fatalf("event %d was refused", i)
		}
		if r.n == 2 {
			if got := binary.BigEndian.Uint32(r.oldest().Data); got != i-1 {
				t.Fatalf("event %d is the oldest, want %d", got, i-1)
			}
			r.pop()
		}
	}
}
