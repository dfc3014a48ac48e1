package conn

import (
	"errors"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// pairReads is what a pair has of replies that the requester reads.
type pairReads struct {
	exposing   []*Call     // to be bound
	unexposing []*Exposure // to be invalidated
	reading    []*Reading
	readable   map[uint32]bool // keys
	// unread counts replies with read chunks that the requester refuses
	// without a DONE.
	unread int
}

// refusedRead says whether an outcome or a reason is one that a reply longer
// than expected may have.
func refusedRead(err error) bool {
	var e *PeerError
	return errors.As(err, &e) || errors.Is(err, ErrBadReply) || errors.Is(err, ErrReplyTooLong) ||
		errors.Is(err, ErrExposures) || errors.Is(err, ErrNoMemory)
}

// readAction carries out what a requester asks for.
func (p *pair) readAction(a Action) {
	switch a := a.(type) {
	case FetchReply:
		for _, f := range a.Reading.Fetches {
			p.tell("requester reads %d bytes from %d@%d to chunk %d + %d", f.Length, f.RKey, f.Addr, f.Chunk, f.Off)
		}
		p.reads.reading = append(p.reads.reading, a.Reading)
	case SendDone:
		h := p.c.Done(a.XID)
		p.tell("requester sends %s", formatHeader(&h))
		p.send(0, arrival{msg: h.Append(nil)})
	}
}

func (p *pair) tellOutcome(o *Outgoing) {
	if o.Read != nil && o.Err == nil {
		p.tell("requester completes: %d bytes read, %v in write chunks", o.Read.Size()-len(o.Read.Stream), o.Written)
		return
	}
	p.tell("requester completes: error %v, %d bytes in the reply chunk, %v in write chunks", o.Err, o.Long, o.Written)
}

// readSteps are the things about replies to be read that may happen next.
func (p *pair) readSteps() (all []func()) {
	for i := range p.reads.exposing {
		all = append(all, func() {
			c := take(&p.reads.exposing, i)
			for k := range c.Exposure.Chunks {
				p.nextKey++
				x := &c.Exposure.Chunks[k]
				x.RKey, x.Addr = p.nextKey, uint64(p.nextKey)*1000
				p.reads.readable[x.RKey] = true
			}
			p.server(p.s.Exposed(c, nil))
		})
	}
	for i := range p.reads.unexposing {
		all = append(all, func() {
			e := take(&p.reads.unexposing, i)
			for k := range e.Chunks {
				delete(p.reads.readable, e.Chunks[k].RKey)
			}
			p.s.Unexposed(e)
		})
	}
	for i := range p.reads.reading {
		all = append(all, func() {
			rd := take(&p.reads.reading, i)
			for _, f := range rd.Fetches {
				if !p.reads.readable[f.RKey] { // reclaimed: the peer's Terminate
					p.cut()
					return
				}
			}
			p.judges[0].reads(rd.Fetches, nil)
			p.client(p.c.ReplyFetched(rd, nil))
		})
	}
	return all
}

// refuses is 1 if the requester is going to refuse the message's read list
// without a DONE.
func (p *pair) refuses(msg []byte) int {
	var h Header
	if _, err := h.decode(msg, speaksAll); err == nil && len(h.Reads) > 0 && !p.c.readsFor(h.XID) {
		return 1
	}
	return 0
}

// reclaim has the responder's timer take what is exposed.
func (p *pair) reclaim(t *rapid.T) {
	for _, e := range p.s.exposures.all {
		if e.state == exposureLive && rapid.Bool().Draw(t, "reclaim") {
			p.server(p.s.Reclaim(e, nil))
		}
	}
}

// checkCredits checks that whatever is on its way finds its receive, with what
// is kept besides for it, and that nobody exceeds what was granted.
func (p *pair) checkCredits() {
	calls, dones, told := 0, 0, 0
	for _, m := range p.toServer {
		var h Header
		if _, err := h.decode(m.msg, speaksAll); err == nil && h.Proc == rpcrdma1.Done {
			dones++
		} else if err == nil && (h.Option == rpcrdma2.OptUpdate || h.Option == rpcrdma2.OptRespond) {
			told++
		} else {
			calls++
		}
	}
	if told > credit.Slack {
		p.t.Fatalf("%d operations without a credit", told)
	}
	g := &p.s.grants
	if n := calls + p.s.Busy(); n > g.Limit() {
		p.t.Fatalf("%d calls on their way or in progress, %d granted", n, g.Limit())
	}
	if dones > g.Dones() {
		p.t.Fatalf("%d DONEs on their way, %d expected", dones, g.Dones())
	}
	live := 0
	for _, e := range p.s.exposures.all {
		if e.state != exposureIdle && e.state != exposureBinding && !e.acked {
			live++
		}
	}
	if len(p.sRecvs) != g.Posted() || len(p.sRecvs)+p.s.Busy() < g.Limit()+credit.Slack+live {
		p.t.Fatalf("%d receives, %d calls, limit %d, %d DONEs to come: %+v", len(p.sRecvs), p.s.Busy(), g.Limit(), live, *g)
	}
	extra := 0
	for _, m := range p.toClient {
		var h Header
		if _, err := h.decode(m.msg, speaksAll); err == nil && (h.Option == rpcrdma2.OptUpdate || h.Option == rpcrdma2.OptRequest) {
			extra++
		}
	}
	if n := len(p.toClient) - extra + credit.Slack; len(p.cRecvs) < n || extra > credit.Slack {
		p.t.Fatalf("%d receives for %d answers and %d operations", len(p.cRecvs), n, extra)
	}
	if calls+dones > len(p.sRecvs)-credit.Slack {
		p.t.Fatalf("%d messages on their way, %d receives", calls+dones, len(p.sRecvs))
	}
}

// nothingExposed: when nothing is in progress, everything was acknowledged that
// the requester did not refuse; that is reclaimed in the end.
func (p *pair) nothingExposed() {
	left := 0
	for _, e := range p.s.exposures.all {
		if e.state == exposureLive {
			p.server(p.s.Reclaim(e, nil))
			p.s.Unexposed(take(&p.reads.unexposing, 0))
		}
		if e.state != exposureIdle {
			left++
		}
	}
	if left != p.reads.unread || p.s.grants.Dones() != left || p.s.exposures.live != 0 || p.s.exposures.bytes != 0 {
		p.t.Fatalf("%d exposures left, %d refused: %+v, %+v", left, p.reads.unread, p.s.exposures, p.s.grants)
	}
}
