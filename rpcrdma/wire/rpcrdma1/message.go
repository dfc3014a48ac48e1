package rpcrdma1

import (
	"math"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Message returns the RPC message after a version-1 header, however long the header's lists
// are. Decode refuses lists beyond its limits, but the type of the RPC message still shows
// its direction. ok is false if the header's type has no RPC message after it, or the
// header is invalid.
func Message(b []byte) (msg []byte, ok bool) {
	p, ok := DecodePrefix(b)
	if !ok || p.Version != Version || (p.Proc != Msg && p.Proc != MsgP) {
		return nil, false
	}
	d := xdr.NewDecoder(b[PrefixSize:])
	if p.Proc == MsgP {
		d.Fixed(2 * wordSize)
	}
	for d.Bool() {
		d.Fixed(readSegmentSize)
	}
	for d.Bool() {
		skipChunk(&d)
	}
	if d.Bool() {
		skipChunk(&d)
	}
	return d.Rest(), d.Err() == nil
}

func skipChunk(d *xdr.Decoder) {
	d.Fixed(d.Count(math.MaxInt32, segmentSize) * segmentSize)
}
