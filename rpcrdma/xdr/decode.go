package xdr

import (
	"encoding/binary"
	"errors"
)

// Errors of a Decoder.
var (
	// ErrShort: the bytes end before the item does.
	ErrShort = errors.New("xdr: unexpected end of data")
	// ErrLimit: a length or count is over the protocol's maximum.
	ErrLimit = errors.New("xdr: length over the limit")
	// ErrBool: a boolean is neither 0 nor 1.
	ErrBool = errors.New("xdr: boolean is neither 0 nor 1")
)

// Decoder reads items off a byte slice, in order. The zero value decodes an
// empty slice. The first failure sticks: from then on every method returns
// the zero value and the offset stands still.
//
// Roundup bytes must be present; their values are not looked at.
type Decoder struct {
	buf []byte
	off int
	err error
}

// NewDecoder decodes b from its start.
func NewDecoder(b []byte) Decoder { return Decoder{buf: b} }

// Err is the first failure, nil when there was none.
func (d *Decoder) Err() error { return d.err }

// Fail makes err stick, unless one does already. Decoders of larger
// structures use it for the checks that are their own.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Offset is the number of bytes decoded.
func (d *Decoder) Offset() int { return d.off }

// Len is the number of bytes not decoded yet.
func (d *Decoder) Len() int { return len(d.buf) - d.off }

// Rest is what is not decoded yet. It aliases the decoded bytes.
func (d *Decoder) Rest() []byte { return d.buf[d.off:] }

// take returns the next n bytes and moves over them, or fails and returns
// nil.
func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.buf)-d.off {
		d.err = ErrShort
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Uint32 decodes an unsigned integer, or an enum.
func (d *Decoder) Uint32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Uint64 decodes an unsigned hyper integer.
func (d *Decoder) Uint64() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Bool decodes a boolean: 0 or 1, and ErrBool for anything else.
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.Fail(ErrBool)
	}
	return v == 1
}

// Length decodes the length word of an opaque, a string or an array and fails
// with ErrLimit when it is over limit. It promises nothing about the bytes
// that follow.
func (d *Decoder) Length(limit int) int {
	n := d.Uint32()
	if int64(n) > int64(limit) {
		d.Fail(ErrLimit)
		return 0
	}
	return int(n)
}

// Count decodes the length word of an array whose elements take at least
// elementSize bytes each. It fails with ErrLimit over limit and with ErrShort
// when so many elements can't be in what is left, so that a caller may
// allocate for the count.
func (d *Decoder) Count(limit, elementSize int) int {
	n := d.Length(limit)
	if int64(n)*int64(elementSize) > int64(d.Len()) {
		d.Fail(ErrShort)
		return 0
	}
	return n
}

// Fixed decodes n bytes of fixed-length opaque data and skips the roundup. The
// result aliases the decoded bytes and can't be appended to in place.
func (d *Decoder) Fixed(n int) []byte {
	if d.err == nil && (n < 0 || n > d.Len()) {
		d.err = ErrShort
	}
	b := d.take(Padded(n))
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// Opaque decodes variable-length opaque data of at most limit bytes. The
// result aliases the decoded bytes; it is nil only after a failure.
func (d *Decoder) Opaque(limit int) []byte {
	return d.Fixed(d.Length(limit))
}

// String decodes a string of at most limit bytes and copies it.
func (d *Decoder) String(limit int) string {
	return string(d.Opaque(limit))
}
