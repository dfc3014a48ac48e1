package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// debt describes the answer that may still come to a call that was given up.
type debt struct {
	uses, spare uint32 // credits and receives that it gives back
	inline      uint32 // its largest Send, in bytes
	readable    bool   // it may have read chunks
}

// Prepare is the event that the planned call o is about to begin. It returns the receives
// to post for a long reply before Begin.
func (r *Requester) Prepare(o *Outgoing, acts []Action) []Action {
	if r.lost == nil && r.passes(o) && r.may(o) && r.reserve(o) {
		acts = r.wantReceives(acts)
	}
	return acts
}

// maxSpare returns how many receives there may be for all but the first transmissions of
// replies: as many as credits, or enough for one reply.
func (r *Requester) maxSpare() int {
	most := int(r.spend.Max())
	return min(max(most, transmission.Limit-1), r.cfg.MaxReceives-credit.Slack-most)
}

// reserve reserves the receives that o's reply may need, if there can be that many. did
// means that it reserved some now. They are requested once. If there is no memory for them,
// o goes without.
func (r *Requester) reserve(o *Outgoing) (did bool) {
	if !o.transmitted || o.spare > 0 || int(r.spend.Spare()+o.xmit.spare) > r.maxSpare() {
		return false
	}
	o.spare = o.xmit.spare
	r.spend.Reserve(o.spare)
	return o.spare > 0
}

// spared reports whether the receives for o's reply are posted.
func (r *Requester) spared(o *Outgoing) bool {
	return !o.transmitted || (o.spare == o.xmit.spare && (o.spare == 0 || r.spend.Spared()))
}

// overspared reports whether o's reply was planned for more receives than there can be now:
// credits.max has risen since, and credits have priority in the receive queue.
func (r *Requester) overspared(o *Outgoing) bool {
	return o.transmitted && int(o.xmit.spare) > max(r.maxSpare(), 0)
}

// hopeless reports that o can never go out as planned: the credits or receives that it
// needs will never be there, or there is no memory for the receives.
func (r *Requester) hopeless(o *Outgoing) bool {
	return (r.spend.Hopeless(o.uses) && !r.awaitsGrant(o)) || r.overspared(o) || (o.spare > 0 && !r.spend.Spared())
}

// awaitsGrant reports whether o, a call of several transmissions, waits for the first
// grant. In the reverse direction it has no other way. Short calls pass it, and the answer
// to one of them brings the grant.
func (r *Requester) awaitsGrant(o *Outgoing) bool {
	return r.cfg.Reverse && !r.spend.Known() && o.uses > 1 && o.uses <= r.spend.Max()
}

// passes reports whether o may go before the waiting calls.
func (r *Requester) passes(o *Outgoing) bool {
	return len(r.waiting) == 0 || (o.uses == 1 && r.head() == len(r.waiting))
}

// head returns the index in waiting of the next call to send, or the length of waiting if
// there is none.
func (r *Requester) head() int {
	if !r.cfg.Reverse || r.spend.Known() {
		return 0
	}
	i := 0
	for i < len(r.waiting) && r.awaitsGrant(r.waiting[i]) {
		i++
	}
	return i
}

// unwait removes a call from waiting.
func (r *Requester) unwait(i int) {
	if i > 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		return
	}
	r.waiting[0] = nil
	r.waiting = r.waiting[1:]
}

// release gives up the receives that were reserved for o's reply.
func (r *Requester) release(o *Outgoing) {
	if o.spare > 0 {
		r.spend.Release(o.spare)
		r.spend.SetMax(r.credits())
		o.spare = 0
	}
}

// withdraw asks for a new plan for o, which is hopeless. The new plan has no transmissions,
// unless fewer receives are enough.
func (r *Requester) withdraw(o *Outgoing) {
	o.Err, o.direct = ErrReplan, o.direct || !r.overspared(o)
	r.release(o)
}

// abandon records that o was given up after it was sent. The credits and receives that it
// holds come back with its answer.
func (r *Requester) abandon(o *Outgoing) {
	r.sent[o.XID] = nil
	if o.uses == 1 && o.spare == 0 && !o.readable && o.inline <= rpcrdma2.DefaultReceiveSize {
		return
	}
	if r.debts == nil {
		r.debts = make(map[uint32]debt)
	}
	r.debts[o.XID] = debt{o.uses, o.spare, o.inline, o.readable}
	o.spare = 0
}

// settle processes the answer to a call that was given up.
func (r *Requester) settle(xid, credits uint32) {
	d, owed := r.debts[xid]
	if !owed {
		d.uses = 1
	}
	delete(r.debts, xid)
	r.spend.AnswerGroup(d.uses, credits)
	if d.spare > 0 {
		r.spend.Release(d.spare)
		r.spend.SetMax(r.credits())
	}
}

// mayAnswer returns how many transmissions the answer to a call may have. o is nil if the
// call was given up.
func (r *Requester) mayAnswer(xid uint32, o *Outgoing) uint32 {
	if o == nil {
		return 1 + r.debts[xid].spare
	}
	return 1 + o.spare
}
