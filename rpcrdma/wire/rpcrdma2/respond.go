package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Respond answers a Request (opttype 3, optresp_xch).
type Respond struct {
	// Done and Rejected are subsets of the request's set.
	Done, Rejected Subset
	// Other are characteristics with a new value that is not the requested one.
	Other Set
}

// Type is OptRespond.
func (*Respond) Type() OptType { return OptRespond }

// Append implements Body.
func (o *Respond) Append(dst []byte) []byte {
	return o.Other.append(appendWords(appendWords(dst, o.Done), o.Rejected))
}

// Decode implements Body.
func (o *Respond) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Done = decodeWords(&d, o.Done, MaxSubsetWords)
	o.Rejected = decodeWords(&d, o.Rejected, MaxSubsetWords)
	o.Other = o.Other.decode(&d)
	return finish(&d)
}
