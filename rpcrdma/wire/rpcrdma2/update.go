package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Update announces changed characteristics (opttype 4, optupd_xch).
type Update struct {
	Now Set
}

// Type is OptUpdate.
func (*Update) Type() OptType { return OptUpdate }

// Append implements Body.
func (o *Update) Append(dst []byte) []byte { return o.Now.append(dst) }

// Decode implements Body.
func (o *Update) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Now = o.Now.decode(&d)
	return finish(&d)
}
