package walk

import (
	"encoding/binary"
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Errors of a Walker. They are permanent.
var (
	// ErrShort: the stream ends before the type does.
	ErrShort = errors.New("walk: unexpected end of data")
	// ErrLimit: a length is over its maximum.
	ErrLimit = errors.New("walk: length over the limit")
	// ErrBool: a boolean is neither 0 nor 1.
	ErrBool = errors.New("walk: boolean is neither 0 nor 1")
	// ErrArm: a union has no arm for its discriminant.
	ErrArm = errors.New("walk: discriminant without an arm")
	// ErrUnknown is ErrArm for a union with a tag.
	ErrUnknown = errors.New("walk: unknown discriminant")
)

// Kind is the reason why a Walker stopped.
type Kind uint8

// Kinds of events.
const (
	// More: the piece is consumed.
	More Kind = iota
	// Tagged: a tagged part with value Value.
	Tagged
	// AtItem: the next byte is the first of an Item of Value bytes.
	AtItem
	// End: the type is complete.
	End
)

// Event is what a Walker reports.
type Event struct {
	Kind  Kind
	Tag   Tag
	Value uint32
}

// frame is the state of the walk in one type.
type frame struct {
	t    *Type
	left uint32 // array, bits, attributes: remaining elements
	n    uint32 // seq: fields done; bits, attributes: number of words; others: 1 when started
}

// Walker walks over one stream at a time. The zero value is at the end of an empty stream.
type Walker struct {
	stack [maxDepth]frame
	depth int
	off   int // bytes consumed
	skip  int // bytes to skip before the next step
	total int // length of the stream; negative when unknown
	item  int // length of the last item
	attrs attributes
	word  [xdr.Unit]byte
	have  int // bytes in word
	pad   oncrpc.Padding
	pads  []Pad
	err   error
}

// Pad is padding in a stream: Len bytes at Off, before the data of an opaque.
type Pad struct{ Off, Len int }

// maxPads limits the padding of a stream. Only short streams have padding: a padded message
// is no longer than a Send.
const maxPads = 1024

// Reset starts a walk over t. total is the stream's length in bytes; negative means
// unknown.
func (w *Walker) Reset(t *Type, total int) {
	w.stack[0], w.depth = frame{t: t}, 1
	w.off, w.skip, w.have, w.item, w.attrs = 0, 0, 0, 0, attributes{}
	w.total, w.pad, w.err = total, oncrpc.Padding{}, nil
	w.pads = w.pads[:0]
}

// SetPadding declares that the stream belongs to a padded message. Call it before the first
// step.
func (w *Walker) SetPadding(pad oncrpc.Padding) { w.pad = pad }

// Pads returns the padding found so far, in order, until Reset.
func (w *Walker) Pads() []Pad { return w.pads }

// Offset returns the number of bytes consumed.
func (w *Walker) Offset() int { return w.off }

// Pending returns the number of bytes that the walk skips next. After AtItem, these are the
// item and its roundup padding.
func (w *Walker) Pending() int { return w.skip }

// Left returns the number of bytes left of the stream; negative means unknown.
func (w *Walker) Left() int {
	if w.total < 0 {
		return -1
	}
	return w.total - w.off
}

// ItemLen returns the length of the last item, without roundup padding.
func (w *Walker) ItemLen() int { return w.item }

// Pass reports that the caller has removed the next n bytes of the stream, at most Pending.
func (w *Walker) Pass(n int) {
	if n < 0 || n > w.skip {
		panic("walk: passed over more than was pending")
	}
	w.skip -= n
	w.off += n
}

// Apart declares, at AtItem, that the item's bytes and roundup padding are not in the
// stream.
func (w *Walker) Apart() {
	w.skip = 0
}

// Next walks over in up to the next event and returns the number of bytes consumed. More
// means that it consumed all of in.
func (w *Walker) Next(in []byte) (n int, ev Event, err error) {
	for w.err == nil {
		b := in
		if w.attrs.within {
			b = w.attrs.cut(b, n, w.off+w.have)
		}
		if w.skip > 0 {
			m := min(w.skip, len(b)-n)
			n += m
			w.Pass(m)
			if w.skip > 0 {
				if w.short() != nil && w.dropped() {
					continue
				}
				return n, Event{}, w.err
			}
		}
		if w.depth == 0 {
			return n, Event{Kind: End}, nil
		}
		f := &w.stack[w.depth-1]
		if w.still(f, &ev) {
			if ev.Kind != More {
				return n, ev, nil
			}
			continue
		}
		v, ok := w.take(b, &n)
		if !ok {
			if w.short() != nil && w.dropped() {
				continue
			}
			return n, Event{}, w.err
		}
		if w.err = w.step(f, v, &ev); w.err != nil && w.dropped() {
			continue
		}
		if ev.Kind != More && w.err == nil {
			return n, ev, nil
		}
	}
	return n, Event{}, w.err
}

// short returns ErrShort at the end of the stream.
func (w *Walker) short() error {
	if w.total >= 0 && w.off+w.have >= w.total {
		w.err = ErrShort
	}
	return w.err
}

// take reads a word, which may come in pieces.
func (w *Walker) take(b []byte, n *int) (v uint32, ok bool) {
	if w.have == 0 && len(b)-*n >= xdr.Unit {
		v = binary.BigEndian.Uint32(b[*n:])
		*n += xdr.Unit
		w.off += xdr.Unit
		return v, true
	}
	m := copy(w.word[w.have:], b[*n:])
	*n += m
	w.have += m
	if w.have < xdr.Unit {
		return 0, false
	}
	w.have = 0
	w.off += xdr.Unit
	return binary.BigEndian.Uint32(w.word[:]), true
}

// still does what needs no word. It returns false if f needs one.
func (w *Walker) still(f *frame, ev *Event) bool {
	t := f.t
	switch t.kind {
	case kindSeq:
		if f.n == uint32(len(t.elems)) {
			w.depth--
			break
		}
		f.n++
		w.push(t.elems[f.n-1])
	case kindFixed:
		w.skip = int(t.n)
		w.depth--
	case kindMark:
		w.depth--
		*ev = Event{Kind: Tagged, Tag: t.tag, Value: t.n}
	case kindRest:
		w.depth = 0
	case kindItem:
		if f.n == 0 {
			return false
		}
		w.depth--
		w.skip = xdr.Padded(w.item)
		*ev = Event{Kind: AtItem, Value: uint32(w.item)}
	case kindArray:
		if f.n == 0 {
			return false
		}
		if f.left == 0 {
			w.depth--
			break
		}
		f.left--
		w.push(t.elems[0])
	case kindBits:
		if f.n == 0 || f.left > 0 {
			return false
		}
		w.depth--
	case kindAttributes:
		return w.value(t)
	default:
		return false
	}
	return true
}

func (w *Walker) push(t *Type) {
	w.stack[w.depth] = frame{t: t}
	w.depth++
}

// step processes the word that f needs.
func (w *Walker) step(f *frame, v uint32, ev *Event) error {
	t := f.t
	switch t.kind {
	case kindWord:
		w.depth--
		w.report(t, v, ev)
	case kindBool:
		w.depth--
		if v > 1 {
			return ErrBool
		}
	case kindOpaque:
		w.depth--
		if err := w.check(v, t.n, 1); err != nil {
			return err
		}
		before, err := w.padding(int(v))
		if err != nil {
			return err
		}
		w.skip = before + xdr.Padded(int(v))
		w.report(t, v, ev)
	case kindItem:
		if err := w.check(v, t.n, 0); err != nil {
			return err
		}
		var err error
		w.item, f.n = int(v), 1
		w.skip, err = w.padding(int(v))
		return err
	case kindArray:
		e := t.elems[0]
		if err := w.check(v, t.n, e.min); err != nil {
			return err
		}
		f.left, f.n = v, 1
		if e.kind == kindFixed {
			f.left = 0
			w.skip = int(v) * e.min
		}
		w.report(t, v, ev)
	case kindBits:
		return w.bits(f, v, ev)
	case kindAttributes:
		return w.attributes(f, v)
	case kindList:
		if v > 1 {
			return ErrBool
		}
		if v == 0 {
			w.depth--
			break
		}
		w.push(t.elems[0])
	case kindUnion:
		return w.choose(f, v, ev)
	}
	return nil
}

// padding returns the length of the padding before the n bytes of the opaque whose length
// was just read, and records it.
func (w *Walker) padding(n int) (int, error) {
	before := w.pad.Before(w.off, n)
	if before == 0 {
		return 0, nil
	}
	if len(w.pads) == maxPads {
		return 0, ErrLimit
	}
	w.pads = append(w.pads, Pad{Off: w.off, Len: before})
	return before, nil
}

func (w *Walker) report(t *Type, v uint32, ev *Event) {
	if t.tag != 0 {
		*ev = Event{Kind: Tagged, Tag: t.tag, Value: v}
	}
}

// check compares a length with its limit, and with the rest of the stream: each unit takes
// at least size bytes.
func (w *Walker) check(n, limit uint32, size int) error {
	if n > limit {
		return ErrLimit
	}
	bytes := int64(n) * int64(size)
	if bytes > maxLength {
		return ErrLimit
	}
	if w.total >= 0 && bytes > int64(w.total-w.off) {
		return ErrShort
	}
	return nil
}

// bits processes the number of words, then each word.
func (w *Walker) bits(f *frame, v uint32, ev *Event) error {
	t := f.t
	if f.n == 0 {
		f.left, f.n = v, v
		if v == 0 {
			w.depth--
		}
		return w.check(v, t.n, xdr.Unit)
	}
	base := (f.n - f.left) * 32
	f.left--
	worth, last := uint32(0), uint32(len(t.sizes)-1)
	watched := base == 0 && v&t.watch != 0
	for i := uint32(0); v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			worth += t.sizes[min(base+i, last)]
		}
	}
	if watched {
		worth |= Watched
	}
	w.report(t, worth, ev)
	return nil
}

// choose replaces a union by its arm.
func (w *Walker) choose(f *frame, v uint32, ev *Event) error {
	t := f.t
	a := t.arm(v)
	switch {
	case a != nil:
		*f = frame{t: a}
		w.report(t, v, ev)
		return nil
	case t.tag != 0:
		return ErrUnknown
	default:
		return ErrArm
	}
}
