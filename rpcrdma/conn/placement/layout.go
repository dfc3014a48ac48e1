package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// wordSize is the size of a target's number in the first header.
const wordSize = 4

// Message describes what to lay out.
type Message struct {
	// Header is the size of the first transmission's header without the numbers of target
	// segments. Continued is the header size of each further transmission.
	Header, Continued int
	// Payload is the length of the payload stream.
	Payload int
	// Items are the lengths of the items to place. None is 0.
	Items []int
	// Limit is the largest transmission. Most is the largest number of transmissions.
	Limit, Most int
}

// Part is a run of bytes of an item in a transmission.
type Part struct {
	Item int
	Off  int // in the item
	Len  int
	At   int // in the transmission
}

// Transmission is one Send of a group: its header, then Payload bytes of the payload
// stream, then its parts, each with padding before it.
type Transmission struct {
	Header, Payload int
	Parts           []Part // of the layout
	Length          int    // total; the padding after the last part is not sent
}

// Padding returns the number of padding bytes.
func (t *Transmission) Padding() int {
	n := t.Length - t.Header - t.Payload
	for i := range t.Parts {
		n -= t.Parts[i].Len
	}
	return n
}

// Layout is the layout of a message in a group of transmissions. It is reusable. The zero
// Layout is ready for use.
type Layout struct {
	Transmissions []Transmission

	parts   []Part
	targets []uint32
	ends    []int // in targets, of each item
}

// Targets returns the numbers of the segments that hold item i, which begins at offset 0 of
// the first. The slice is valid until the layout is used again.
func (l *Layout) Targets(i int) []uint32 {
	from := 0
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.targets[from:l.ends[i]:l.ends[i]]
}

// Lay lays out m for receives of structure s. It returns false if that is impossible. The
// payload stream follows the header, but leaves free the target segments that items need.
// Items begin at the next target segment, each in segments of its own. Lay does not
// allocate once the layout is large enough.
func (l *Layout) Lay(s *Structure, m *Message) bool {
	targets := 0
	for _, n := range m.Items {
		if n <= 0 || n > MaxTransmissions*MaxLength {
			return false
		}
	}
	// More targets make a longer header, which may leave fewer targets in the first
	// receive. The header only grows, so this ends.
	for {
		if !l.try(s, m, m.Header+wordSize*targets) {
			return false
		}
		if len(l.targets) <= targets {
			break
		}
		targets = len(l.targets)
	}
	l.shrink(m.Header)
	return true
}

// shrink removes unused room from the first header.
func (l *Layout) shrink(header int) {
	t := &l.Transmissions[0]
	t.Header = header + wordSize*len(l.targets)
	if len(t.Parts) == 0 {
		t.Length = t.Header + t.Payload
	}
}

// try lays out m with a first header of header bytes.
func (l *Layout) try(s *Structure, m *Message, header int) bool {
	l.Transmissions, l.parts, l.targets, l.ends = l.Transmissions[:0], l.parts[:0], l.targets[:0], l.ends[:0]
	limit := m.Limit
	if len(s.targets) > 0 {
		limit = min(limit, s.length)
	}
	payload, item, done := m.Payload, 0, 0 // bytes of item that are placed
	for n := 0; n == 0 || payload > 0 || item < len(m.Items); n++ {
		if n == min(m.Most, MaxTransmissions) || header > limit {
			return false
		}
		t := Transmission{Header: header, Payload: min(payload, limit-header)}
		first := s.after(header)
		if item < len(m.Items) && first < len(s.targets) {
			t.Payload = min(t.Payload, s.targets[first].off-header)
		}
		payload -= t.Payload
		t.Length = header + t.Payload
		from := len(l.parts)
		for k := s.after(t.Length); k < len(s.targets) && item < len(m.Items); k++ {
			seg := s.targets[k]
			part := Part{Item: item, Off: done, Len: min(seg.len, m.Items[item]-done), At: seg.off}
			if seg.off+part.Len > limit {
				break
			}
			l.parts = append(l.parts, part)
			l.targets = append(l.targets, uint32(n*len(s.targets)+k))
			t.Length = seg.off + part.Len
			if done += part.Len; done == m.Items[item] {
				item, done = item+1, 0
				l.ends = append(l.ends, len(l.targets))
			}
		}
		t.Parts = l.parts[from:len(l.parts):len(l.parts)]
		l.Transmissions = append(l.Transmissions, t)
		header = m.Continued
		if t.Payload == 0 && len(t.Parts) == 0 && n > 0 {
			return false // nothing fits into a receive
		}
	}
	return l.bounded()
}

// bounded reports whether no item has more segments than a header may name.
func (l *Layout) bounded() bool {
	from := 0
	for _, end := range l.ends {
		if end-from > rpcrdma2.MaxTargets {
			return false
		}
		from = end
	}
	return true
}

// after returns the index of the first target that begins at off or later.
func (s *Structure) after(off int) int {
	for k := range s.targets {
		if s.targets[k].off >= off {
			return k
		}
	}
	return len(s.targets)
}
