package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// XmtCont is a transmission of a group after the first (opttype 7, optxmt_cont), with the
// XID of the first. PayloadLength bytes of the payload stream follow the header. 0 is
// valid.
type XmtCont struct {
	Number        uint32  // of this transmission in its group, from 1 on
	Initial       OptType // of the first transmission: OptXmtReq or OptXmtResp
	PayloadLength uint32  // in this transmission, in bytes
}

// Type is OptXmtCont.
func (*XmtCont) Type() OptType { return OptXmtCont }

// Size returns the number of bytes that Append appends.
func (*XmtCont) Size() int { return 3 * wordSize }

// Append implements Body.
func (o *XmtCont) Append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, o.Number)
	dst = xdr.AppendUint32(dst, uint32(o.Initial))
	return xdr.AppendUint32(dst, o.PayloadLength)
}

// Decode implements Body.
func (o *XmtCont) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	*o = XmtCont{Number: d.Uint32(), Initial: OptType(d.Uint32()), PayloadLength: d.Uint32()}
	return finish(&d)
}
