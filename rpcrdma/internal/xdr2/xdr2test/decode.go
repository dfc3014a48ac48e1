package xdr2test

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/xdrpp/goxdr/xdr"
)

// Decode decodes v from the start of b and returns the number of bytes that it
// took. Unlike goxdr's own decoder it refuses values that an enum does not
// have, and does not look at roundup bytes.
func Decode(b []byte, v xdr.XdrType) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("xdr2test: %v", r)
		}
	}()
	in := reader{b: b}
	v.XdrMarshal(&in, "")
	return in.off, nil
}

// reader is an xdr.XDR that decodes. It panics when it can't.
type reader struct {
	b   []byte
	off int
}

// Sprintf is for the names of fields, which nobody reads.
func (*reader) Sprintf(string, ...any) string { return "" }

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)-r.off) {
		panic("unexpected end")
	}
	b := r.b[r.off : r.off+int(n)]
	r.off += int(n)
	return b
}

// Marshal decodes i.
func (r *reader) Marshal(name string, i xdr.XdrType) {
	switch v := i.(type) {
	case xdr.XdrNum32:
		v.SetU32(binary.BigEndian.Uint32(r.take(4)))
		if e, ok := i.(xdr.XdrEnum); ok {
			if _, ok := e.XdrEnumNames()[int32(v.GetU32())]; !ok {
				panic("no value of the enum")
			}
		}
	case xdr.XdrNum64:
		v.SetU64(binary.BigEndian.Uint64(r.take(8)))
	case xdr.XdrVarBytes:
		n := uint64(binary.BigEndian.Uint32(r.take(4)))
		v.SetByteSlice(bytes.Clone(r.take(n)))
		r.take(-n & 3)
	case xdr.XdrAggregate:
		v.XdrRecurse(r, name)
	default:
		panic(fmt.Sprintf("no decoder for %T", i))
	}
}
