package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Received is a received transmission of a group: its header, the payload stream after it,
// and its total length.
type Received struct {
	Header, Payload, Length int
}

// Span is a run of bytes in a transmission of a group.
type Span struct {
	Transmission int
	Off, Len     int
}

// Resolver finds the items of a group. It is reusable. The zero Resolver is ready for use.
type Resolver struct {
	s     *Structure
	group []Received
	used  []uint64 // bits of the target segments that hold an item
}

// Begin starts with a group received in receives of structure s. The Resolver uses both
// until the last item was resolved. It returns a BadPayload *Error if a payload stream
// exceeds its transmission.
func (r *Resolver) Begin(s *Structure, group []Received) error {
	r.s, r.group = s, group
	words := (len(group)*len(s.targets) + 63) / 64
	if cap(r.used) < words {
		r.used = make([]uint64, words)
	}
	r.used = r.used[:words]
	clear(r.used)
	for i := range group {
		if err := CheckPayload(&group[i], i); err != nil {
			return err
		}
	}
	return nil
}

// CheckPayload returns an *Error if the payload stream of transmission number exceeds it.
func CheckPayload(t *Received, number int) error {
	if room := max(t.Length-t.Header, 0); t.Payload < 0 || t.Payload > room {
		return &Error{Code: rpcrdma2.BadPayload, Actual: uint32(t.Payload), Max: uint32(room), Transmission: number}
	}
	return nil
}

// Item appends the location of the bytes of a TargetBuffer item to dst. Adjacent runs are
// merged. An *Error is BadTarget (no such segment, it did not arrive completely, it holds
// payload stream or another item, or there are too few or too many) or BadOffset (not in
// the segment, or not a multiple of 4).
func (r *Resolver) Item(dst []Span, it *rpcrdma2.Item) ([]Span, error) {
	off, left := it.Offset, uint64(it.Length)
	for _, number := range it.Targets {
		at, seg, err := r.find(number)
		if err != nil {
			return dst, err
		}
		if off >= uint32(seg.len) || off%unit != 0 {
			return dst, &Error{Code: rpcrdma2.BadOffset, Actual: off, Max: uint32(seg.len - unit), Transmission: at}
		}
		n := int(min(left, uint64(seg.len)-uint64(off)))
		t, begin := &r.group[at], seg.off+int(off)
		if n == 0 || begin < t.Header+t.Payload || begin+n > t.Length || !r.use(number) {
			return dst, r.bad(number, at)
		}
		dst = appendSpan(dst, Span{Transmission: at, Off: begin, Len: n})
		left -= uint64(n)
		off = 0
	}
	if left > 0 {
		next := uint32(0)
		if k := len(it.Targets); k > 0 {
			next = it.Targets[k-1] + 1
		}
		return dst, r.bad(next, len(r.group)-1)
	}
	return dst, nil
}

// find returns the transmission of a target segment, and the segment.
func (r *Resolver) find(number uint32) (at int, seg target, err error) {
	per := len(r.s.targets)
	if uint64(number) >= uint64(len(r.group)*per) {
		return 0, target{}, r.bad(number, len(r.group)-1)
	}
	return int(number) / per, r.s.targets[int(number)%per], nil
}

// use marks a segment as used. It returns false if it was used already.
func (r *Resolver) use(number uint32) bool {
	word, bit := &r.used[number/64], uint64(1)<<(number%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (r *Resolver) bad(number uint32, at int) error {
	return &Error{Code: rpcrdma2.BadTarget, Actual: number, Max: uint32(max(len(r.group)*len(r.s.targets)-1, 0)), Transmission: at}
}

// appendSpan appends a span, or extends the last one if it continues there.
func appendSpan(dst []Span, s Span) []Span {
	if k := len(dst) - 1; k >= 0 && dst[k].Transmission == s.Transmission && dst[k].Off+dst[k].Len == s.Off {
		dst[k].Len += s.Len
		return dst
	}
	return append(dst, s)
}
