package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Received is a transmission of a group that came: its header, the payload
// stream after it, and its length in all.
type Received struct {
	Header, Payload, Length int
}

// Span is a run of bytes in a transmission of a group.
type Span struct {
	Transmission int
	Off, Len     int
}

// Resolver finds the items of one group after the other. It is reused; the
// zero Resolver is ready for use.
type Resolver struct {
	s     *Structure
	group []Received
	used  []uint64 // bits of target segments that an item is in
}

// Begin takes a group that came into receives of structure s. Both are looked
// at until the last of its items was asked for. An *Error is BadPayload: a
// payload stream does not lie within its transmission.
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

// CheckPayload says whether the payload stream of transmission number lies
// within it.
func CheckPayload(t *Received, number int) error {
	if room := max(t.Length-t.Header, 0); t.Payload < 0 || t.Payload > room {
		return &Error{Code: rpcrdma2.BadPayload, Actual: uint32(t.Payload), Max: uint32(room), Transmission: number}
	}
	return nil
}

// Item appends where the bytes of an item with TargetBuffer are; runs that
// touch are one. An *Error is BadTarget (no such segment, or it did not come
// whole, or the payload stream or an item is in it; one too few or too many)
// or BadOffset (not in the segment, or not a multiple of 4).
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

// find gives the transmission that a target segment is in, and the segment.
func (r *Resolver) find(number uint32) (at int, seg target, err error) {
	per := len(r.s.targets)
	if uint64(number) >= uint64(len(r.group)*per) {
		return 0, target{}, r.bad(number, len(r.group)-1)
	}
	return int(number) / per, r.s.targets[int(number)%per], nil
}

// use marks a segment and says whether it was free.
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

// appendSpan appends a span, as part of the last one if it goes on there.
func appendSpan(dst []Span, s Span) []Span {
	if k := len(dst) - 1; k >= 0 && dst[k].Transmission == s.Transmission && dst[k].Off+dst[k].Len == s.Off {
		dst[k].Len += s.Len
		return dst
	}
	return append(dst, s)
}
