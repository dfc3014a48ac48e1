package rpcrdma2

import (
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// XmtReq is the first transmission of a request (opttype 5, optxmt_req).
// PayloadLength bytes of the payload stream follow the header.
type XmtReq struct {
	Items   []Item      // excised from the request
	Results []ResultSet // where the response's items are to go
	Count   uint32      // transmissions of the group
	// ReceiveBuffers is the number of receives posted beyond one for the
	// response (rsbuf).
	ReceiveBuffers uint32
	// Reply is the reply chunk. HasReply distinguishes an empty one from none.
	Reply         WriteChunk
	HasReply      bool
	PayloadLength uint32 // in this transmission, in bytes
}

// Type is OptXmtReq.
func (*XmtReq) Type() OptType { return OptXmtReq }

// Size returns the number of bytes that Append appends.
func (o *XmtReq) Size() int {
	n := itemsSize(o.Items) + 5*wordSize // count of sets, count, rsbuf, whether there is a reply chunk, pslen
	for i := range o.Results {
		n += o.Results[i].size()
	}
	if o.HasReply {
		n += wordSize + segmentSize*len(o.Reply)
	}
	return n
}

// Append implements Body.
func (o *XmtReq) Append(dst []byte) []byte {
	dst = appendItems(dst, o.Items)
	dst = xdr.AppendUint32(dst, uint32(len(o.Results)))
	for i := range o.Results {
		dst = o.Results[i].append(dst)
	}
	dst = xdr.AppendUint32(dst, o.Count)
	dst = xdr.AppendUint32(dst, o.ReceiveBuffers)
	dst = xdr.AppendBool(dst, o.HasReply)
	if o.HasReply {
		dst = rpcrdma1.AppendSegments(dst, o.Reply)
	}
	return xdr.AppendUint32(dst, o.PayloadLength)
}

// Decode implements Body.
func (o *XmtReq) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	o.Items = decodeItems(&d, o.Items)
	o.Results = o.Results[:0]
	for range d.Count(MaxRanges, minResultSet) {
		xdr.Extend(&o.Results).decode(&d)
	}
	o.Count, o.ReceiveBuffers = d.Uint32(), d.Uint32()
	o.Reply = o.Reply[:0]
	if o.HasReply = d.Bool(); o.HasReply {
		o.Reply = rpcrdma1.DecodeSegments(&d, o.Reply)
	}
	o.PayloadLength = d.Uint32()
	return finish(&d)
}
