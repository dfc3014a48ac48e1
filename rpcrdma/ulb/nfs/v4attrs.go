package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// limitAttrs are FATTR4_MAXREAD and FATTR4_MAXWRITE (RFC 7530 §5.8.2.20,
// §5.8.2.21), bits 30 and 31 of a set of attributes.
const limitAttrs = 1<<30 | 1<<31

// shown is fattr4 in results. Its values are walked only if limits are among them, and only
// up to the limits: they are in the order of their bits.
var shown = guess(expectBitmap+4, walk.Attributes(noLimit, firstAttrs(), limitAttrs))

// firstAttrs returns the types of the attributes 0 to 31 (RFC 7531).
func firstAttrs() []*Type {
	var (
		path     = array(noLimit, opaque(noLimit))
		location = seq(array(noLimit, opaque(noLimit)), path)
		bytes    = seq(word(ulb.DataHigh), word(ulb.DataLow))
	)
	types := make([]*Type, 32)
	for i := range types {
		types[i] = u32 // booleans, enumerations, integers
	}
	for _, i := range []int{3, 4, 20, 21, 22, 23, 27} {
		types[i] = u64 // change, size, fileid, files_avail, files_free, files_total, maxfilesize
	}
	types[0] = bitmap                               // supported_attrs
	types[8] = fixed(16)                            // fsid
	types[12] = array(noLimit, ace)                 // acl
	types[19] = handle4                             // filehandle
	types[24] = seq(path, array(noLimit, location)) // fs_locations
	types[30], types[31] = bytes, bytes             // maxread, maxwrite
	return types
}
