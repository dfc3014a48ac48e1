// Package xdrin decodes types that goxdr generates from bytes that a peer sent.
//
// A value takes memory in proportion to the bytes that it is decoded from,
// whatever its counts say. The caller bounds the bytes: lists are decoded
// recursively.
package xdrin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/xdrpp/goxdr/xdr"
)

// ErrShort means that the data ends before the value does.
var ErrShort = errors.New("it ends too early")

// Decode decodes v from the start of b and returns the number of bytes that it
// took. It refuses values that an enum or a bool does not have.
func Decode(b []byte, v xdr.XdrType) (n int, err error) {
	in := reader{b: b}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		case xdr.XdrError: // of the generated code
			err = r
		default:
			panic(r)
		}
	}()
	v.XdrMarshal(&in, "")
	return in.off, nil
}

// failure is how reader leaves the generated code.
type failure struct{ error }

type reader struct {
	b   []byte
	off int
}

// Sprintf is for the names of fields, which nobody reads.
func (*reader) Sprintf(string, ...any) string { return "" }

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)-r.off) {
		panic(failure{ErrShort})
	}
	b := r.b[r.off : r.off+int(n)]
	r.off += int(n)
	return b
}

// Marshal decodes i.
func (r *reader) Marshal(name string, i xdr.XdrType) {
	switch v := i.(type) {
	case xdr.XdrNum32:
		n := binary.BigEndian.Uint32(r.take(4))
		if err := holds(i, n); err != nil {
			panic(failure{err})
		}
		v.SetU32(n)
	case xdr.XdrNum64:
		v.SetU64(binary.BigEndian.Uint64(r.take(8)))
	case xdr.XdrVarBytes:
		n := uint64(binary.BigEndian.Uint32(r.take(4)))
		if n > uint64(v.XdrBound()) {
			panic(failure{fmt.Errorf("%d bytes where there may be %d", n, v.XdrBound())})
		}
		v.SetByteSlice(bytes.Clone(r.take(n)))
		r.take(-n & 3)
	case xdr.XdrBytes:
		b := v.GetByteSlice()
		copy(b, r.take(uint64(len(b))))
		r.take(-uint64(len(b)) & 3)
	case xdr.XdrAggregate:
		v.XdrRecurse(r, name)
	default:
		panic(failure{fmt.Errorf("no decoder for %T", i)})
	}
}

// holds reports whether i may have the value n.
func holds(i xdr.XdrType, n uint32) error {
	e, ok := i.(xdr.XdrEnum)
	if !ok {
		return nil
	}
	if _, ok := e.XdrEnumNames()[int32(n)]; !ok {
		return fmt.Errorf("%s has no value %d", i.XdrTypeName(), n)
	}
	return nil
}
