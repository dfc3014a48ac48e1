package capture

import (
	"net/netip"
	"slices"
	"time"
)

// flow is a TCP connection. It delivers each segment after the bytes that its
// sender had received. A segment waits while earlier bytes, or bytes that it
// acknowledges, are missing. A flow skips a hole if its receiver has
// acknowledged the bytes and the capture does not have them soon after, or if
// too much waits. If too much waits in all flows, the longest silent ones skip theirs.
type flow struct {
	ends  [2]netip.AddrPort
	half  [2]half
	frame uint64    // the highest frame number among delivered packets
	time  time.Time // of the packet being delivered
	// waiting are the waiting segments in capture order, bytes is the size of
	// their data. all is the memory of the waiting segments of all flows.
	waiting []segment
	bytes   int
	all     *int
	holes   int  // bytes that the capture lacks
	reset   bool // RST was delivered
	deaf    bool // all further segments are ignored
}

// half is one direction of a flow: the bytes that ends[i] sends.
type half struct {
	to    *direction
	known bool   // next is known
	first uint32 // sequence number of the first byte
	next  uint32 // of the next one
	// skipped is the number of bytes that were skipped since a segment was ready.
	skipped int
	ended   bool // FIN or RST was delivered
}

// before reports whether sequence number a is before b (RFC 9293 §3.4).
func before(a, b uint32) bool { return int32(a-b) < 0 }

// side returns the index of a segment's sender.
func (f *flow) side(s *segment) int {
	if s.from == f.ends[0] {
		return 0
	}
	return 1
}

// add takes a segment. If the segment must wait, add copies its data.
func (f *flow) add(s *segment) {
	if !f.ready(s) {
		f.wait(s)
		return
	}
	f.deliver(s)
	if len(f.waiting) > 0 {
		f.drain()
	}
}

// ready reports whether everything that a segment may depend on was delivered.
func (f *flow) ready(s *segment) bool {
	i := f.side(s)
	own, other := &f.half[i], &f.half[1-i]
	if s.acks && other.known && !s.rst && before(other.next, s.ack) {
		return false
	}
	return !own.known || s.span() == 0 || !before(own.next, s.seq)
}

// wait keeps a segment, and skips holes that are due.
func (f *flow) wait(s *segment) {
	kept := *s
	kept.data = append([]byte(nil), s.data...)
	f.waiting = append(f.waiting, kept)
	f.bytes += len(kept.data)
	*f.all += kept.memory()
	for f.impatient() {
		f.skip()
		f.drain()
	}
}

func (f *flow) impatient() bool {
	switch n := len(f.waiting); {
	case n == 0:
		return false
	case n > maxWaitingSegments || f.bytes > maxWaiting:
		return true
	default:
		return n > patience && f.acknowledged()
	}
}

// acknowledged reports whether a waiting segment acknowledges missing bytes.
func (f *flow) acknowledged() bool {
	for i := range f.waiting {
		s := &f.waiting[i]
		if other := &f.half[1-f.side(s)]; s.acks && other.known && before(other.next, s.ack) {
			return true
		}
	}
	return false
}

// maxSkip is how much skip skips for one segment. Sequence numbers that are
// farther apart have no order (RFC 9293 §3.4): it could skip for ever.
const maxSkip = 1 << 31

// skip skips a hole, so that a waiting segment can be delivered.
func (f *flow) skip() {
	for i := range f.half {
		h := &f.half[i]
		if n := f.hole(i); n > 0 && h.skipped+n <= maxSkip {
			h.next += uint32(n)
			h.skipped += n
			f.holes += n
			h.to.missing(n)
			return
		}
	}
	// Each side acknowledges bytes that the other has yet to send. This is no
	// TCP connection, or a mixture of two. Deliver any segment that comes next.
	for j := range f.waiting {
		s := f.waiting[j]
		if h := &f.half[f.side(&s)]; s.span() == 0 || !before(h.next, s.seq) {
			f.remove(j)
			f.deliver(&s)
			return
		}
	}
	f.ignore()
}

// ignore drops the waiting segments, and ignores further ones.
func (f *flow) ignore() {
	for i := range f.waiting {
		*f.all -= f.waiting[i].memory()
	}
	f.waiting, f.bytes, f.deaf = nil, 0, true
}

// hole returns the number of bytes that are missing in a half, up to the next
// waiting segment or acknowledged byte. It returns 0 if none are missing.
func (f *flow) hole(i int) int {
	next, n := f.half[i].next, 0
	for j := range f.waiting {
		s := &f.waiting[j]
		d := 0
		switch {
		case f.side(s) != i && s.acks && f.half[i].known:
			d = int(int32(s.ack - next))
		case f.side(s) == i && s.span() > 0:
			if d = int(int32(s.seq - next)); d <= 0 && d+int(s.span()) > 0 {
				return 0 // this segment is next
			}
		}
		if d > 0 && (n == 0 || d < n) {
			n = d
		}
	}
	return n
}

// remove removes a waiting segment.
func (f *flow) remove(j int) {
	f.bytes -= len(f.waiting[j].data)
	*f.all -= f.waiting[j].memory()
	f.waiting = slices.Delete(f.waiting, j, j+1)
}

// drain delivers the waiting segments that are ready.
func (f *flow) drain() {
	for i := 0; i < len(f.waiting); {
		if !f.ready(&f.waiting[i]) {
			i++
			continue
		}
		s := f.waiting[i]
		f.remove(i)
		f.half[0].skipped, f.half[1].skipped = 0, 0
		f.deliver(&s)
		i = 0
	}
	if len(f.waiting) == 0 {
		f.waiting = nil
	}
}

// flush delivers all waiting segments, because no more will come.
func (f *flow) flush() {
	for len(f.waiting) > 0 {
		f.skip()
		f.drain()
	}
}

// deliver passes a segment's new bytes to its direction.
func (f *flow) deliver(s *segment) {
	f.frame, f.time = max(f.frame, s.frame), s.time
	h := &f.half[f.side(s)]
	if !h.known {
		h.known, h.first, h.next = true, s.seq, s.seq
	}
	at := s.seq
	if s.syn {
		at++
		h.first = at
		if before(h.next, at) {
			h.next = at
		}
	}
	if old := int(int32(h.next - at)); old >= 0 && old < s.length {
		h.next = at + uint32(s.length)
		if old < len(s.data) {
			h.to.bytes(s.data[old:])
		}
		if n := s.length - max(old, len(s.data)); n > 0 {
			f.holes += n
			h.to.missing(n)
		}
	}
	if s.fin && h.next == at+uint32(s.length) {
		h.next++
	}
	f.reset = f.reset || s.rst
	if (s.fin || s.rst) && !h.ended {
		h.ended = true
		h.to.closed()
	}
}
