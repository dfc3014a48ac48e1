package xdr

import (
	"encoding/binary"
	"errors"
)

// Errors of a Decoder.
var (
	// ErrShort: the data ends before the item does.
	ErrShort = errors.New("xdr: unexpected end of data")
	// ErrLimit: a length or count exceeds the protocol's maximum.
	ErrLimit = errors.New("xdr: length over the limit")
	// ErrBool: a boolean is neither 0 nor 1.
	ErrBool = errors.New("xdr: boolean is neither 0 nor 1")
)

// Decoder reads items from a byte slice, in order. The zero value decodes an empty slice.
// The first failure is permanent: after it every method returns the zero value and the
// offset does not change.
//
// Roundup bytes must be present. Their values are not checked.
type Decoder struct {
	buf []byte
	off int
	err error
}

// NewDecoder decodes b from its start.
func NewDecoder(b []byte) Decoder { return Decoder{buf: b} }

// Err returns the first failure, or nil.
func (d *Decoder) Err() error { return d.err }

// Fail sets err as the failure, unless there is one already. Decoders of larger structures
// use it for their own checks.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// Offset returns the number of bytes decoded.
func (d *Decoder) Offset() int { return d.off }

// Len returns the number of bytes not decoded yet.
func (d *Decoder) Len() int { return len(d.buf) - d.off }

// Rest returns the bytes not decoded yet. It aliases the data.
func (d *Decoder) Rest() []byte { return d.buf[d.off:] }

// take returns the next n bytes and skips them, or fails and returns nil.
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

// Bool decodes a boolean: 0 or 1. Any other value is ErrBool.
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.Fail(ErrBool)
	}
	return v == 1
}

// Length decodes the length word of an opaque, a string or an array. It fails with ErrLimit
// if it exceeds limit. It does not check the bytes that follow.
func (d *Decoder) Length(limit int) int {
	n := d.Uint32()
	if int64(n) > int64(limit) {
		d.Fail(ErrLimit)
		return 0
	}
	return int(n)
}

// Count decodes the length word of an array whose elements take at least elementSize bytes
// each. It fails with ErrLimit if it exceeds limit, and with ErrShort if so many elements
// cannot be in the rest of the data. So a caller may allocate for the count.
func (d *Decoder) Count(limit, elementSize int) int {
	n := d.Length(limit)
	if int64(n)*int64(elementSize) > int64(d.Len()) {
		d.Fail(ErrShort)
		return 0
	}
	return n
}

// Fixed decodes n bytes of fixed-length opaque data and skips the roundup. The result
// aliases the data. Appending to it copies it.
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

// Opaque decodes variable-length opaque data of at most limit bytes. The result aliases the
// data. It is nil only after a failure.
func (d *Decoder) Opaque(limit int) []byte {
	return d.Fixed(d.Length(limit))
}

// String decodes a string of at most limit bytes and copies it.
func (d *Decoder) String(limit int) string {
	return string(d.Opaque(limit))
}

// Extend lengthens a list by one element and returns it. The element has the storage of the
// one that was there before.
func Extend[T any](list *[]T) *T {
	if n := len(*list); n < cap(*list) {
		*list = (*list)[:n+1]
	} else {
		var zero T
		*list = append(*list, zero)
	}
	return &(*list)[len(*list)-1]
}
