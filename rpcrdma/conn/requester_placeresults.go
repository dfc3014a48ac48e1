package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// placeResults directs large results to target segments of our receives, or lets the peer
// choose that. They are copied from there once. It returns false if there are no large
// results, the settings do not ask for it, or there is no room.
func (r *Requester) placeResults(o *Outgoing) bool {
	x := o.xmit
	x.results, x.chooses = false, false
	if !r.settings.Extensions.Has(settings.ExtSendDDP) || len(r.chars.Known.Buffer.Groups) == 0 {
		return false
	}
	n := o.largeResults(r.settings.LeastPlaced())
	if n == 0 || n > rpcrdma2.MaxItems {
		return false
	}
	switch r.settings.Placement {
	case settings.PlaceSent:
		return r.sendResults(o, n)
	case settings.PlaceChosen:
		return r.chooseResults(o, n)
	case settings.PlaceBySize:
		return r.sendResults(o, n) || r.divideResults(o, n)
	}
	return false
}

// sendResults directs the first n results to target segments. It returns false if the
// receives that we may post for a reply do not hold the largest results.
func (r *Requester) sendResults(o *Outgoing, n int) bool {
	if !r.layResults(o, o.Results[:n], n*placedItemSize, r.replyLimit()) {
		return false
	}
	for i := range n {
		o.xmit.direct(o, i, rpcrdma2.TargetBuffer)
	}
	r.directed(o, n)
	return true
}

// chooseResults lets the peer choose where the first n results go.
func (r *Requester) chooseResults(o *Outgoing, n int) bool {
	x, header := o.xmit, 0
	for i := range n {
		header += max(r.offerResult(o, i, x.direct(o, i, rpcrdma2.Choice)), placedItemSize)
	}
	if !r.layResults(o, o.Results[:n], header, r.replyLimit()) {
		if sends := r.divide(o, n); !r.layParts(o, header, sends) {
			return r.takeBack(o)
		}
	}
	x.chooses = true
	r.directed(o, n)
	return true
}

// divideResults divides the target segments that a reply has anyway between the first n
// results. The peer writes a result that turns out larger than its part. A result whose
// largest size fits its part needs no memory of its own.
func (r *Requester) divideResults(o *Outgoing, n int) bool {
	x, header := o.xmit, 0
	sends := r.divide(o, n)
	for i, part := range x.parts {
		switch {
		case part >= o.Results[i]:
			x.direct(o, i, rpcrdma2.TargetBuffer)
			header += placedItemSize
		case part == 0:
			header += r.offerResult(o, i, x.direct(o, i, rpcrdma2.ExplicitRDMA))
		default:
			d := x.direct(o, i, rpcrdma2.BySize)
			d.Threshold = uint32(part) + 1
			header += max(r.offerResult(o, i, d), placedItemSize)
			x.chooses = true
		}
	}
	if !r.layParts(o, header, sends) {
		return r.takeBack(o)
	}
	r.directed(o, n)
	return true
}

// takeBack undoes directions whose layout failed.
func (r *Requester) takeBack(o *Outgoing) bool {
	x := o.xmit
	o.Windows, x.req.Results, x.chooses = o.Windows[:0], x.req.Results[:0], false
	return false
}

// divide computes, for each of the first n results, its part in bytes of the target
// segments in the Sends that the reply may take without the results. It returns the number
// of these Sends.
func (r *Requester) divide(o *Outgoing, n int) (sends int) {
	x, receive := o.xmit, int(r.chars.Planned())
	header := rpcrdma2.OptionalSize(responseSize) + n*(writtenItemSize+segmentSize)
	sends = min(transmission.Count(o.inStream(n), header, receive), r.replyLimit())
	pages := sends * r.chars.Targets.Ours().Room(receive) / placement.PageSize
	x.parts = x.parts[:0]
	for i, size := range o.Results[:n] {
		part := min(pages/(n-i), (size+placement.PageSize-1)/placement.PageSize)
		pages -= part
		x.parts = append(x.parts, min(part*placement.PageSize, size))
	}
	return sends
}

// layParts lays out the reply with at most its part of each result that has one. It returns
// false if none has.
func (r *Requester) layParts(o *Outgoing, header, sends int) bool {
	return slices.Max(o.xmit.parts) > 0 && r.layResults(o, o.xmit.parts, header, sends)
}

// layResults lays out the reply with these sizes of the first results. header is what they
// add to the first header, in bytes, apart from the numbers of target segments.
func (r *Requester) layResults(o *Outgoing, sizes []int, header, most int) bool {
	l := &o.xmit.layout
	l.Forget()
	for _, size := range sizes {
		if size > 0 {
			l.Add(0, size)
		}
	}
	m := placement.Message{
		Header: rpcrdma2.OptionalSize(responseSize) + header, Continued: transmission.ContinueSize, Payload: o.inStream(len(sizes)),
		Limit: int(r.chars.Planned()), Most: most, // a peer that places relies on the size of our receives
	}
	return l.Plan(r.chars.Targets.Ours(), &m)
}

// directed records what the reply needs according to its layout. Short results go into
// space that would otherwise be padding or, when there is none, into a Send without
// padding.
func (r *Requester) directed(o *Outgoing, n int) {
	x := o.xmit
	o.unwritten()
	room, first := 0, &x.layout.Transmissions[0]
	switch {
	case n == 1:
		room = int(r.chars.Planned()) - first.Header - o.inStream(n)
	case len(first.Parts) > 0:
		room = first.Parts[0].At - first.Header - first.Payload
	}
	x.keepShort(o, r.settings.LeastPlaced(), room)
	x.spare = uint32(len(x.layout.Transmissions) - 1)
	x.results, o.inline = true, max(o.inline, r.chars.Planned())
}
