package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

const (
	errResource  = 10018 // version 4.0 has no error of its own for this
	errReqTooBig = 10065
	opSetattr    = 34
	maxTag       = 512 // of those that are looked at, in bytes
)

// TooLarge returns the results that report to a client that its COMPOUND is too long to be
// forwarded (RFC 7530 §13.1.10.4, RFC 8881 §15.1.10.11): its first operation fails. head is
// the beginning of the arguments. It returns nil for other calls, for which only an RPC
// error is possible.
func TooLarge(c *oncrpc.Call, head []byte) []byte {
	if c.Program != program || c.Version != 4 || c.Procedure != 1 || c.Cred.Flavor == oncrpc.FlavorGSS {
		return nil
	}
	d := xdr.NewDecoder(head)
	tag := d.Opaque(maxTag)
	minor, count, op := d.Uint32(), d.Uint32(), d.Uint32()
	if d.Err() != nil || count == 0 {
		return nil
	}
	status := uint32(errReqTooBig)
	if minor == 0 {
		status = errResource
	}
	b := xdr.AppendOpaque(xdr.AppendUint32(nil, status), tag)
	b = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(b, 1), op), status)
	if op == opSetattr { // its bitmap comes with an error, too
		b = xdr.AppendUint32(b, 0)
	}
	return b
}
