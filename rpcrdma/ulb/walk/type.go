package walk

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Tag marks what a Walker reports. The caller defines its meaning. 0 means no tag.
type Tag uint8

// NoLimit is for opaques and arrays without a maximum in the protocol. A Walker still
// refuses a length above maxLength.
const NoLimit = -1

const (
	// maxLength limits every length, in bytes, so that sums fit in an int.
	maxLength = 1 << 30
	// maxDepth limits the nesting of Types.
	maxDepth = 24
	// denseArms is the number of the smallest discriminants that are looked up by index.
	denseArms = 128
)

type kind uint8

const (
	kindSeq kind = iota
	kindFixed
	kindWord
	kindMark
	kindBool
	kindOpaque
	kindItem
	kindArray
	kindList
	kindBits
	kindUnion
	kindRest
	kindAttributes
)

// Type is the layout of an XDR type.
type Type struct {
	kind  kind
	tag   Tag
	n     uint32   // fixed: bytes; opaque, item, array, bits, attributes: limit; mark: value
	elems []*Type  // seq: fields; array, list: the element; attributes: values by bit
	dense []*Type  // union: arms by discriminant
	arms  []arm    // union: the other arms
	other *Type    // union: default arm, nil for none
	sizes []uint32 // bits: what a bit is worth
	watch uint32   // bits, attributes: those of the first word that matter

	depth    int
	min, max int // encoded size in bytes; max < 0 is unknown
}

type arm struct {
	value uint32
	t     *Type
}

// Max returns the largest encoded size in bytes, or the value of Guess for parts without a
// maximum. It is negative if unknown. An Item counts as its length word.
func (t *Type) Max() int { return t.max }

// made checks the depth.
func (t *Type) made() *Type {
	if t.depth >= maxDepth {
		panic("walk: types nested too deeply")
	}
	return t
}

// limit turns a limit into what is stored, and the largest size of limit units.
func limit(n, unit int) (stored uint32, size int) {
	if n == NoLimit {
		return maxLength, -1
	}
	if n < 0 || n > maxLength {
		panic(fmt.Sprintf("walk: limit %d", n))
	}
	return uint32(n), xdr.Unit + xdr.Padded(n*unit)
}

// Fixed is n bytes, with roundup: integers, enumerations, fixed-length opaque
// data (RFC 4506 §4.1 to §4.9).
func Fixed(n int) *Type {
	n = xdr.Padded(n)
	return &Type{kind: kindFixed, n: uint32(n), depth: 1, min: n, max: n}
}

// Word is an unsigned integer that is reported.
func Word(tag Tag) *Type { return &Type{kind: kindWord, tag: tag, depth: 1, min: 4, max: 4} }

// Mark takes no bytes. The walk reports value at its place.
func Mark(tag Tag, value int) *Type {
	if value < 0 {
		panic(fmt.Sprintf("walk: mark with %d", value))
	}
	return &Type{kind: kindMark, tag: tag, n: uint32(value), depth: 1}
}

// Bool is a boolean (RFC 4506 §4.4).
func Bool() *Type { return &Type{kind: kindBool, depth: 1, min: 4, max: 4} }

// Opaque is variable-length opaque data, or a string, of at most n bytes
// (RFC 4506 §4.10, §4.11). With a tag, its length is reported.
func Opaque(n int, tag Tag) *Type {
	stored, size := limit(n, 1)
	return &Type{kind: kindOpaque, tag: tag, n: stored, depth: 1, min: 4, max: size}
}

// Item is Opaque at whose bytes the walker stops.
func Item(n int) *Type {
	stored, _ := limit(n, 1)
	return &Type{kind: kindItem, n: stored, depth: 1, min: 4, max: 4}
}

// Array is a variable-length array of at most n elements (RFC 4506 §4.13).
// With a tag, the number of elements is reported.
func Array(n int, elem *Type, tag Tag) *Type {
	if elem.min == 0 {
		panic("walk: array of nothing")
	}
	stored, size := limit(n, max(elem.max, 0))
	if elem.max < 0 {
		size = -1
	}
	return (&Type{kind: kindArray, tag: tag, n: stored, elems: []*Type{elem}, depth: elem.depth + 1, min: 4, max: size}).made()
}

// Optional is optional-data (RFC 4506 §4.19), which is an array of at most one.
func Optional(elem *Type) *Type { return Array(1, elem, 0) }

// List is a chain of optional-data whose last member is the next one
// (RFC 4506 §4.19).
func List(elem *Type) *Type {
	return (&Type{kind: kindList, elems: []*Type{elem}, depth: elem.depth + 1, min: 4, max: -1}).made()
}

// Bits is an array of at most n unsigned integers, read as a set of bits. Each word is
// reported as the sum of the sizes of its bits: sizes[i] for bit i of the set, its last
// element for later bits.
//
// For a word with one of the bits in watch, which are bits of the set's first word, Watched
// is added.
func Bits(n int, tag Tag, sizes []uint32, watch uint32) *Type {
	stored, size := limit(n, xdr.Unit)
	return &Type{kind: kindBits, tag: tag, n: stored, sizes: sizes, watch: watch, depth: 1, min: 4, max: size}
}

// Watched is set in the value that Bits reports for a word with a watched bit.
const Watched = 1 << 31

// Attributes is a set of bits, an array of at most n unsigned integers, and variable-length
// opaque data with a value for each set bit, in their order (fattr4, RFC 7530 §3.2).
// values[i] is the type of the value for bit i. Later values are not walked. No value is
// walked if none of the watched bits is set, and none after an invalid one: they are opaque
// to the stream. Attributes cannot be nested.
func Attributes(n int, values []*Type, watch uint32) *Type {
	if len(values) > 32 {
		panic(fmt.Sprintf("walk: %d attributes", len(values)))
	}
	stored, _ := limit(n, xdr.Unit)
	t := &Type{kind: kindAttributes, n: stored, elems: values, watch: watch, min: 8, max: -1}
	for _, v := range values {
		t.depth = max(t.depth, v.depth)
	}
	t.depth++
	return t.made()
}

// Seq is a structure (RFC 4506 §4.14). Fields of fixed size are joined.
func Seq(fields ...*Type) *Type {
	t := &Type{kind: kindSeq}
	for _, f := range fields {
		t.min += f.min
		t.max = sum(t.max, f.max)
		t.depth = max(t.depth, f.depth)
		inner := []*Type{f}
		if f.kind == kindSeq {
			inner = f.elems
		}
		for _, e := range inner {
			if last := len(t.elems) - 1; e.kind == kindFixed && last >= 0 && t.elems[last].kind == kindFixed {
				t.elems[last] = Fixed(int(t.elems[last].n + e.n))
				continue
			}
			t.elems = append(t.elems, e)
		}
	}
	t.depth++
	return t.made()
}

func sum(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// Arm is the type of a union for one discriminant.
type Arm struct {
	Value uint32
	Type  *Type
}

// Union is a discriminated union (RFC 4506 §4.15). other is its default arm, or nil.
// Without it, an unknown discriminant is an error, which is ErrUnknown for a union with a
// tag. With a tag, the discriminant is reported.
func Union(tag Tag, other *Type, arms ...Arm) *Type {
	t := &Type{kind: kindUnion, tag: tag, other: other}
	all := make([]*Type, 0, len(arms)+1)
	for _, a := range arms {
		if t.arm(a.Value) != other {
			panic(fmt.Sprintf("walk: arm %d twice", a.Value))
		}
		t.add(a)
		all = append(all, a.Type)
	}
	if other != nil {
		all = append(all, other)
	}
	t.min = all[0].min
	for _, a := range all {
		t.min = min(t.min, a.min)
		t.depth = max(t.depth, a.depth)
		if t.max >= 0 && a.max >= 0 {
			t.max = max(t.max, a.max)
		} else {
			t.max = -1
		}
	}
	t.min, t.max = t.min+xdr.Unit, sum(t.max, xdr.Unit)
	t.depth++
	return t.made()
}

func (t *Type) add(a Arm) {
	if a.Value >= denseArms {
		t.arms = append(t.arms, arm{a.Value, a.Type})
		return
	}
	for uint32(len(t.dense)) <= a.Value {
		t.dense = append(t.dense, nil)
	}
	t.dense[a.Value] = a.Type
}

// arm returns the type for a discriminant, or nil if there is none.
func (t *Type) arm(value uint32) *Type {
	if value < uint32(len(t.dense)) {
		if a := t.dense[value]; a != nil {
			return a
		}
		return t.other
	}
	for i := range t.arms {
		if t.arms[i].value == value {
			return t.arms[i].t
		}
	}
	return t.other
}

// Rest is all data that follows, of any layout. The walk ends where it starts.
func Rest() *Type { return &Type{kind: kindRest, depth: 1, max: -1} }

// Guess is t with n bytes as its Max.
func Guess(n int, t *Type) *Type {
	g := *t
	g.max = n
	return &g
}
