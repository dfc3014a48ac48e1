package referee

import (
	"encoding/binary"
	"testing"
)

// FuzzConversation plays random conversations of correct peers.
func FuzzConversation(f *testing.F) {
	f.Add([]byte("\x04\x00\x02\x01\x03\x05 the quick brown fox jumps over the lazy dog"))
	f.Fuzz(func(t *testing.T, data []byte) {
		left := len(data)
		draw := func(n int) int {
			if left == 0 {
				return 0
			}
			v := int(data[len(data)-left])
			left--
			return v * n / 256
		}
		m := newModel(connected(t), draw)
		for left > 0 {
			m.step()
		}
		m.check(t)
	})
}

// An event of FuzzEvents is kind, side and STag, offset, length, then data.
const eventPrefix = 5

// appendEvent appends the encoding of e for FuzzEvents.
func appendEvent(out []byte, e *Event) []byte {
	out = append(out, byte(e.Kind), byte(e.From)|byte(e.STag)<<1, byte(e.Offset))
	out = binary.BigEndian.AppendUint16(out, uint16(len(e.Data)))
	return append(out, e.Data...)
}

// FuzzEvents observes arbitrary events.
func FuzzEvents(f *testing.F) {
	for _, p := range planted1 {
		for _, bad := range []bool{false, true} {
			b := connected(nil)
			p.play(b, bad)
			f.Add(b.log)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := connected(t)
		for len(data) >= eventPrefix {
			n := min(int(binary.BigEndian.Uint16(data[3:])), len(data)-eventPrefix)
			e := Event{
				Kind: Kind(data[0] % 8), From: Side(data[1] & 1), STag: uint32(data[1] >> 1), Offset: uint64(data[2]),
				Length: int(binary.BigEndian.Uint16(data[3:])), Data: data[eventPrefix : eventPrefix+n],
			}
			if data[0]&0x80 != 0 {
				b.r.Gap()
			}
			b.event(e)
			data = data[eventPrefix+n:]
		}
		b.consistent()
	})
}

// consistent checks that the counters match the kept state.
func (b *bed) consistent() {
	r := b.r
	windows, kept := 0, 0
	bodies := map[*assembly]bool{}
	for owner, byStag := range r.memory.windows {
		for stag, list := range byStag {
			for _, w := range list {
				windows++
				if w.stag != stag || int(w.owner) != owner {
					b.t.Fatalf("STag %#x of the %v is kept as %#x", w.stag, w.owner, stag)
				}
				if w.body != nil && !bodies[w.body] {
					bodies[w.body] = true
					kept += cap(w.body.buf)
				}
			}
		}
	}
	for _, d := range r.dirs {
		for _, c := range d.calls {
			windows += len(c.writes)
		}
	}
	if windows != r.memory.count {
		b.t.Fatalf("%d windows are kept, counted %d", windows, r.memory.count)
	}
	if kept > r.memory.kept || r.memory.kept > maxKept {
		b.t.Fatalf("%d bytes are kept, counted %d", kept, r.memory.kept)
	}
}
