package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Request asks the peer to change its characteristics (opttype 2, optreq_xch). A Respond
// with the same XID answers it.
type Request struct {
	Want Set
}

// Type is OptRequest.
func (*Request) Type() OptType { return OptRequest }

// Append implements Body.
func (o *Request) Append(dst []byte) []byte { return o.Want.append(dst) }

// Decode implements Body.
func (o *Request) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Want = o.Want.decode(&d)
	return finish(&d)
}
