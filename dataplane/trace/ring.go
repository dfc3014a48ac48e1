package trace

import "unsafe"

// slot is an event in a ring.
type slot struct {
	Event
	span int // of its bytes in the ring, with the unused ones before them
}

// ring is a queue of events with their data in one buffer. The oldest event may
// be read in place until pop removes it.
type ring struct {
	slots       []slot
	first, n    int
	buf         []byte
	head, spans int // next free byte; bytes in use
}

func newRing(events, bytes int) ring {
	return ring{slots: make([]slot, events), buf: make([]byte, bytes)}
}

// dataPerEvent is the size of a ring's data per event, in bytes.
const dataPerEvent = RingBytes / ringEvents

// wholeRing is the memory of the largest ring, in bytes.
const wholeRing = RingBytes + ringEvents*int(unsafe.Sizeof(slot{}))

// ringOf makes a ring that takes at most memory bytes.
func ringOf(memory int) ring {
	events := memory / (dataPerEvent + int(unsafe.Sizeof(slot{})))
	return newRing(events, events*dataPerEvent)
}

// memory returns the memory of the ring, in bytes.
func (r *ring) memory() int { return len(r.buf) + len(r.slots)*int(unsafe.Sizeof(slot{})) }

// push adds an event with the first bytes of data, at most snap. It returns false if there
// is no room.
func (r *ring) push(e *Event, data [][]byte, snap int) bool {
	n := min(e.Length, snap)
	if r.n == len(r.slots) {
		return false
	}
	if r.n == 0 {
		r.head, r.spans = 0, 0
	}
	at, span := r.head, n
	if at+n > len(r.buf) { // the bytes of an event must be contiguous
		at, span = 0, len(r.buf)-r.head+n
	}
	if r.spans+span > len(r.buf) {
		return false
	}
	s := &r.slots[(r.first+r.n)%len(r.slots)]
	s.Event, s.span = *e, span
	s.Data = r.buf[at : at : at+n]
	for _, d := range data {
		s.Data = append(s.Data, d[:min(len(d), n-len(s.Data))]...)
	}
	r.n++
	r.head, r.spans = at+n, r.spans+span
	return true
}

// oldest returns the oldest event. The ring must not be empty.
func (r *ring) oldest() *Event { return &r.slots[r.first].Event }

// pop removes the oldest event.
func (r *ring) pop() {
	s := &r.slots[r.first]
	r.spans -= s.span
	s.Event = Event{}
	r.first = (r.first + 1) % len(r.slots)
	r.n--
}
