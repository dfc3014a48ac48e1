package trace

import "unsafe"

// slot is an event in a ring, and the bytes that it takes.
type slot struct {
	Event
	at, span int // span: with what is left unused before it
}

// ring is a queue of events whose data lies in one buffer. The oldest may be
// read where it is until it is taken away.
type ring struct {
	slots       []slot
	first, n    int
	buf         []byte
	head, spans int // next free byte; bytes in use
}

func newRing(events, bytes int) ring {
	return ring{slots: make([]slot, events), buf: make([]byte, bytes)}
}

// dataPerEvent is how much data a ring has for each event, in bytes.
const dataPerEvent = RingBytes / ringEvents

// wholeRing is what the largest ring takes, in bytes.
const wholeRing = RingBytes + ringEvents*int(unsafe.Sizeof(slot{}))

// ringOf makes a ring that takes at most so much memory, in bytes.
func ringOf(memory int) ring {
	events := memory / (dataPerEvent + int(unsafe.Sizeof(slot{})))
	return newRing(events, events*dataPerEvent)
}

// memory is what the ring takes, in bytes.
func (r *ring) memory() int { return len(r.buf) + len(r.slots)*int(unsafe.Sizeof(slot{})) }

// push adds an event with the first bytes of data, at most snap, and says
// whether there was room.
func (r *ring) push(e *Event, data [][]byte, snap int) bool {
	n := min(e.Length, snap)
	if r.n == len(r.slots) {
		return false
	}
	if r.n == 0 {
		r.head, r.spans = 0, 0
	}
	at, span := r.head, n
	if at+n > len(r.buf) { // the bytes stay together
		at, span = 0, len(r.buf)-r.head+n
	}
	if r.spans+span > len(r.buf) {
		return false
	}
	s := &r.slots[(r.first+r.n)%len(r.slots)]
	s.Event, s.at, s.span = *e, at, span
	s.Data = r.buf[at : at : at+n]
	for _, d := range data {
		s.Data = append(s.Data, d[:min(len(d), n-len(s.Data))]...)
	}
	r.n++
	r.head, r.spans = at+n, r.spans+span
	return true
}

// oldest is the event that came first; there is one.
func (r *ring) oldest() *Event { return &r.slots[r.first].Event }

// pop takes the oldest event away.
func (r *ring) pop() {
	s := &r.slots[r.first]
	r.spans -= s.span
	s.Event = Event{}
	r.first = (r.first + 1) % len(r.slots)
	r.n--
}
