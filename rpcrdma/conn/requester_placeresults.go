package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// placeResults has results that are large land in target segments of our
// receives, from where they are copied once, or lets them. False is that there are
// none, or that this is not asked for, or that there is no room.
func (r *Requester) placeResults(o *Outgoing) bool {
	x := o.xmit
	x.results, x.chooses = false, false
	if !r.settings.Extensions.Has(ExtSendDDP) || len(r.chars.Known.Buffer.Groups) == 0 {
		return false
	}
	n := o.largeResults(r.settings.LeastPlaced())
	if n == 0 || n > rpcrdma2.MaxItems {
		return false
	}
	switch r.settings.Placement {
	case PlaceSent:
		return r.sendResults(o, n)
	case PlaceChosen:
		return r.chooseResults(o, n)
	case PlaceBySize:
		return r.sendResults(o, n) || r.divideResults(o, n)
	}
	return false
}

// sendResults directs the first n results to target segments; false is that the
// receives we may post for a reply don't hold the largest of them.
func (r *Requester) sendResults(o *Outgoing, n int) bool {
	if !r.layResults(o, n, n*placedItemSize, r.replyLimit()) {
		return false
	}
	for i := range n {
		o.xmit.direct(o, i, rpcrdma2.TargetBuffer)
	}
	r.directed(o, n)
	return true
}

// chooseResults leaves it to the peer where the first n results go.
func (r *Requester) chooseResults(o *Outgoing, n int) bool {
	x, header := o.xmit, 0
	for i := range n {
		header += max(r.offerResult(o, i, x.direct(o, i, rpcrdma2.Choice)), placedItemSize)
	}
	if !r.layResults(o, n, header, r.replyLimit()) {
		if sends := r.divide(o, n); !r.layParts(o, n, header, sends) {
			return r.takeBack(o)
		}
	}
	x.chooses = true
	r.directed(o, n)
	return true
}

// divideResults divides the target segments that a reply has anyhow between the
// first n results: the peer writes what turns out larger than its part. A result
// whose largest is not needs no memory.
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
	if !r.layParts(o, n, header, sends) {
		return r.takeBack(o)
	}
	r.directed(o, n)
	return true
}

// takeBack undoes directions that came to nothing.
func (r *Requester) takeBack(o *Outgoing) bool {
	x := o.xmit
	o.Windows, x.req.Results, x.chooses = o.Windows[:0], x.req.Results[:0], false
	return false
}

// divide gives each of the first n results its part, in bytes, of the target
// segments of the Sends that the reply may take without them.
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

// layParts lays the reply out with no more of each of the first n results than its
// part.
func (r *Requester) layParts(o *Outgoing, n, header, sends int) bool {
	l := &o.xmit.layout
	l.Forget()
	for _, part := range o.xmit.parts {
		if part > 0 {
			l.Add(0, part)
		}
	}
	return !l.Empty() && r.layReply(o, n, header, sends)
}

// layResults lays the reply out with the largest first n results, whose first
// header has header bytes about them beside numbers of target segments.
func (r *Requester) layResults(o *Outgoing, n, header, most int) bool {
	l := &o.xmit.layout
	l.Forget()
	for _, size := range o.Results[:n] {
		if size > 0 {
			l.Add(0, size)
		}
	}
	return r.layReply(o, n, header, most)
}

func (r *Requester) layReply(o *Outgoing, n, header, most int) bool {
	m := placement.Message{
		Header: rpcrdma2.OptionalSize(responseSize) + header, Continued: transmission.ContinueSize, Payload: o.inStream(n),
		Limit: int(r.chars.Planned()), Most: most, // a peer that places goes by what we receive
	}
	return o.xmit.layout.Plan(r.chars.Targets.Ours(), &m)
}

// directed notes what the reply takes, as it is laid out. Results that are short
// go into what would be padding, or when there is no other into a Send without any.
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
