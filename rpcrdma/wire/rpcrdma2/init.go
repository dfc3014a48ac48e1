package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Init announces characteristics at the start (opttype 1, optinit_xch). It is the first
// message on a connection, from either side.
type Init struct {
	Start Set
	// NoChange selects those of Start that stay fixed while the connection lives.
	NoChange Subset
}

// Type is OptInit.
func (*Init) Type() OptType { return OptInit }

// Append implements Body.
func (o *Init) Append(dst []byte) []byte {
	return appendWords(o.Start.append(dst), o.NoChange)
}

// Decode implements Body.
func (o *Init) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Start = o.Start.decode(&d)
	o.NoChange = decodeWords(&d, o.NoChange, MaxSubsetWords)
	return finish(&d)
}
