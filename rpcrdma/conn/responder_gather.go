package conn

import (
	"errors"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ErrGroupCount means that an XMTREQ announces no transmissions, or more than we accept.
var ErrGroupCount = errors.New("conn: call of no or too many transmissions")

// callGroup is a call in transmissions, and its reply. Its storage is reused.
type callGroup struct {
	transmission.Group
	req  rpcrdma2.XmtReq
	resp rpcrdma2.XmtResp
	// recvs holds the call's receives beyond the first.
	recvs []uint32
	body  []byte // the payload stream

	items  transmission.Items  // of the call
	layout transmission.Layout // of the reply
}

// keptBody is the largest payload stream, in bytes, whose memory a call keeps for the next.
const keptBody = 64 << 10

// transmissions is the state of a responder's transmissions.
type transmissions struct {
	// takes and continues are set if the extension is on or was on. After it was turned
	// off, the peer may still have sent transmissions, or expect long replies in them.
	takes, continues bool
	gather           transmission.Gathering
	call             *Call // the call that is arriving
}

func (t *transmissions) set(s *settings.Settings) {
	t.takes = t.takes || s.Extensions.Has(settings.ExtXmit)
	t.continues = t.continues || s.Extensions.Has(settings.ExtXmit|settings.ExtContinuation)
}

// limit returns how many transmissions a call or a reply may have.
func (t *transmissions) limit() uint32 {
	if t.continues {
		return transmission.Limit
	}
	return 1
}

// transmission processes an operation of a requester if it is a transmission. known reports
// whether it is.
func (r *Responder) transmission(c *Call, payload []byte, acts []Action) (_ []Action, known bool) {
	if !r.xmit.takes {
		return acts, false
	}
	switch c.header.Option {
	case rpcrdma2.OptXmtReq:
		return r.request(c, payload, acts), true
	case rpcrdma2.OptXmtCont:
		var x rpcrdma2.XmtCont
		if err := x.Decode(c.header.Info); err != nil {
			return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts), true
		}
		return r.refuseGroup(c, rpcrdma2.XmtError{
			Bad:  rpcrdma2.Transmission{XID: c.XID, Number: x.Number},
			Code: rpcrdma2.BadContinuation,
		}, acts), true
	}
	return acts, false
}

// request processes the first transmission of a call.
func (r *Responder) request(c *Call, payload []byte, acts []Action) []Action {
	if c.group == nil {
		c.group = new(callGroup)
	}
	q := &c.group.req
	if err := q.Decode(c.header.Info); err != nil {
		return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts)
	}
	if q.Count == 0 || q.Count > r.xmit.limit() {
		return r.refuse(c, rpcrdma2.ErrBadHeader, ErrGroupCount, acts)
	}
	r.xmit.call = c
	r.xmit.gather.Start(&c.header.Header, rpcrdma2.OptXmtReq, q.Count, q.PayloadLength, c.recv, payload)
	return r.requested(acts)
}

// continued processes an XMTCONT while a call is arriving. Like a call, an XMTCONT has a
// credit and a receive.
func (r *Responder) continued(h *Header, recv uint32, payload []byte, acts []Action) []Action {
	if err := r.grants.Call(); err != nil {
		return r.fail(err, acts)
	}
	r.xmit.gather.Add(&h.Header, recv, payload)
	return r.requested(acts)
}

// requested begins the call once all its transmissions have arrived.
func (r *Responder) requested(acts []Action) []Action {
	g, c := &r.xmit.gather, r.xmit.call
	if !g.Whole() {
		return acts
	}
	x := c.group
	x.recvs = append(x.recvs[:0], g.Recvs[1:]...)
	c.transmitted, r.xmit.call = true, nil
	switch {
	case g.Bad:
		e := g.Wrong
		g.End()
		return r.refuseGroup(c, e, acts)
	case r.live(c.XID):
		g.End()
		return r.keepCopy(c, acts)
	}
	body := g.Parts[0]
	if len(g.Parts) > 1 {
		x.body = g.Append(slices.Grow(x.body[:0], g.Size))
		body = x.body
	}
	err := x.items.Locate(&r.chars.Targets, g, x.req.Items)
	if e, is := transmission.Fault(err, g); is {
		g.End()
		return r.refuseGroup(c, e, acts)
	}
	g.End()
	if err == nil {
		err = x.unfold(&c.header)
	}
	if err != nil {
		return r.refuse(c, rpcrdma2.ErrBadHeader, err, acts)
	}
	r.Counters.Calls++
	r.xids, c.tracked = append(r.xids, c.XID), true
	return r.begin(c, body, acts)
}

// unfold copies the memory that an XMTREQ offers for RDMA into the header's lists, where
// other messages have it. Each direction gets a write chunk. A direction without memory
// gets one without segments.
func (x *callGroup) unfold(h *Header) error {
	h.Reads, h.Writes = h.Reads[:0], h.Writes[:0]
	placed := uint32(0) // length of the items in target segments so far, in bytes
	for i := range x.req.Items {
		it := &x.req.Items[i]
		if it.Place == rpcrdma2.TargetBuffer {
			placed += uint32(xdr.Padded(int(it.Length)))
			continue
		}
		if it.Place != rpcrdma2.ExplicitRDMA || it.Disp == placed || chunk.CheckWrite(it.Segments) != nil || chunk.Capacity(it.Segments) < uint64(it.Length) {
			return transmission.ErrItem
		}
		chunk.Used(it.Segments, int(it.Length)) // they may be longer: the item has its own length (rtrext §7.3)
		for _, s := range it.Segments {
			h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: it.Disp - placed, Segment: s})
		}
	}
	if !rpcrdma2.Ordered(x.req.Results) {
		return transmission.ErrItem
	}
	for i := range x.req.Results {
		for k := range x.req.Results[i].Items {
			if len(h.Writes) == rpcrdma1.MaxWriteChunks {
				return transmission.ErrItem
			}
			h.Writes = appendSegments(h.Writes, x.req.Results[i].Items[k].Segments)
		}
	}
	h.Reply, h.HasReply = append(h.Reply[:0], x.req.Reply...), x.req.HasReply
	return nil
}

// appendSegments appends a chunk and reuses the storage of the one that was there before.
func appendSegments(list []rpcrdma1.WriteChunk, segs []rpcrdma1.Segment) []rpcrdma1.WriteChunk {
	c := xdr.Extend(&list)
	*c = append((*c)[:0], segs...)
	return list
}

// forgetGroup ends the use of a call's group.
func (c *Call) forgetGroup() {
	c.transmitted = false
	if x := c.group; x != nil {
		x.items.Forget()
		if x.recvs = x.recvs[:0]; cap(x.body) > keptBody {
			x.body = nil
		}
	}
}

// sends returns the number of transmissions of a call. Each took a credit and a receive.
func (c *Call) sends() int {
	if !c.transmitted {
		return 1
	}
	return 1 + len(c.group.recvs)
}

// moreRecvs returns the receives of a call beyond the first.
func (c *Call) moreRecvs() []uint32 {
	if !c.transmitted {
		return nil
	}
	return c.group.recvs
}

// ReplySends returns how many transmissions a call's reply may have.
func (c *Call) ReplySends() int {
	if !c.transmitted {
		return 1
	}
	return int(min(c.group.req.ReceiveBuffers, transmission.Limit-1)) + 1
}

// Continues reports whether a message, which has not been given yet, is part of a call of which
// others have arrived.
func (r *Responder) Continues(a *Arrival) bool {
	return r.xmit.gather.Open && a.continues(rpcrdma2.Call)
}
