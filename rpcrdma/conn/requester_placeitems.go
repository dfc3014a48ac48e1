package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// placeItems plans all large items of a call for target segments of the peer's receives.
// Then we expose no memory, and the peer need not read it. It returns false if there are no
// large items, or they do not fit.
func (r *Requester) placeItems(o *Outgoing) bool {
	x := o.xmit
	x.layout.Forget()
	x.placed = false
	s := r.chars.Targets.Peer(&r.chars.Told.Buffer)
	if !r.settings.Extensions.Has(settings.ExtSendDDP) || s.Targets() == 0 {
		return false
	}
	for i := range o.Items {
		it := &o.Items[i]
		if it.Chunked = it.Len >= r.settings.LeastPlaced(); it.Chunked {
			x.layout.Add(chunk.Source(i), it.Len)
		}
	}
	if n := len(x.layout.Sources); n == 0 || n > rpcrdma2.MaxItems {
		return false
	}
	for _, i := range x.layout.Sources {
		it := xdr.Extend(&x.req.Items)
		*it = rpcrdma2.Item{
			Disp: uint32(chunk.Position(o.Items, int(i))), Length: uint32(o.Items[i].Len), Place: rpcrdma2.TargetBuffer,
			Segments: it.Segments[:0], Targets: it.Targets[:0],
		}
	}
	o.pieces = chunk.AppendPieces(o.pieces[:0], o.StreamLen, o.Items)
	m := placement.Message{
		Header: rpcrdma2.OptionalSize(x.req.Size()), Continued: transmission.ContinueSize, Payload: o.MessageLength(),
		Limit: x.limit, Most: r.callLimit(),
	}
	// The XID is in the first Send. With its padding the message still fits into one buffer.
	if !x.layout.Plan(s, &m) || x.layout.Transmissions[0].Payload < 4 || x.layout.Body() > MaxMessage {
		x.req.Items = x.req.Items[:0]
		return false
	}
	for k := range x.req.Items {
		x.req.Items[k].Targets = append(x.req.Items[k].Targets, x.layout.Targets(k)...)
	}
	x.placed, x.structure = true, r.chars.Targets.Version()
	return true
}

// place fills the Sends of a call from its layout.
func (o *Outgoing) place() {
	x := o.xmit
	begin, inline := x.Place(&x.layout, o.pieces)
	first := &x.layout.Transmissions[0]
	o.First, o.Inline, o.More, x.req.PayloadLength = first.Length-first.Header, inline, x.More, uint32(begin)
}

// BodyLength returns the length of the pieces of a planned call, in bytes.
func (o *Outgoing) BodyLength() int {
	n := chunk.Length(o.Inline)
	for i := range o.More {
		n += o.More[i].Length
	}
	return n
}
