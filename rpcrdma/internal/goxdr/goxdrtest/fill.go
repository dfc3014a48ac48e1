// Package goxdrtest makes and encodes values of the types of package goxdr.
package goxdrtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/xdrpp/goxdr/xdr"
)

// Encode encodes v.
func Encode(v xdr.XdrType) []byte {
	var b bytes.Buffer
	v.XdrMarshal(xdr.XdrOut{Out: &b}, "")
	return b.Bytes()
}

// Fill gives v a random value that its type allows. Lists are short.
func Fill(rnd *rand.Rand, v xdr.XdrType) { v.XdrMarshal(filler{rnd}, "") }

// filler is an xdr.XDR that makes up what it is asked for.
type filler struct{ *rand.Rand }

// Sprintf makes the names of fields, which nobody reads.
func (filler) Sprintf(string, ...any) string { return "" }

// Marshal gives i a value.
func (f filler) Marshal(name string, i xdr.XdrType) {
	switch v := i.(type) {
	case *xdr.XdrSize:
		v.SetU32(uint32(f.IntN(4)))
	case xdr.XdrEnum:
		v.SetU32(uint32(pick(f, v.XdrEnumNames())))
	case *xdr.XdrBool:
		v.SetU32(uint32(f.IntN(2)))
	case xdr.XdrNum32:
		v.SetU32(f.Uint32() >> f.IntN(32))
	case xdr.XdrNum64:
		v.SetU64(f.Uint64())
	case xdr.XdrVarBytes:
		b := make([]byte, f.IntN(13))
		for i := range b {
			b[i] = byte(f.Uint32())
		}
		v.SetByteSlice(b)
	case xdr.XdrUnion:
		v.XdrUnionTag().SetU32(uint32(pick(f, v.XdrValidTags())))
		if body := v.XdrUnionBody(); body != nil {
			body.XdrMarshal(f, name)
		}
	case xdr.XdrPtr:
		v.SetPresent(f.IntN(2) == 0)
		v.XdrMarshalValue(f, name)
	case xdr.XdrAggregate:
		v.XdrRecurse(f, name)
	default:
		panic(fmt.Sprintf("goxdrtest: no value for %T", i))
	}
}

// pick returns one key of m.
func pick[V any](f filler, m map[int32]V) int32 {
	keys := slices.Sorted(maps.Keys(m))
	return keys[f.IntN(len(keys))]
}
