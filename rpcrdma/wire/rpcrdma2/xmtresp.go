package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// XmtResp is the first transmission of a response (opttype 6, optxmt_resp).
// PayloadLength bytes of the payload stream follow the header.
type XmtResp struct {
	Items         []Item // one for each ResultItem of the request
	Count         uint32 // transmissions of the group
	PayloadLength uint32 // in this transmission, in bytes
}

// Type is OptXmtResp.
func (*XmtResp) Type() OptType { return OptXmtResp }

// Size returns the number of bytes that Append appends.
func (o *XmtResp) Size() int { return itemsSize(o.Items) + 2*wordSize }

// Append implements Body.
func (o *XmtResp) Append(dst []byte) []byte {
	dst = appendItems(dst, o.Items)
	dst = xdr.AppendUint32(dst, o.Count)
	return xdr.AppendUint32(dst, o.PayloadLength)
}

// Decode implements Body.
func (o *XmtResp) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Items = decodeItems(&d, o.Items)
	o.Count, o.PayloadLength = d.Uint32(), d.Uint32()
	return finish(&d)
}
