package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/credit"
)

// debt is what the answer to a call that was given up gives back.
type debt struct{ uses, spare uint32 }

// Prepare is the event that o, which is planned, is about to begin: it gives the
// receives to post before Begin for a long reply.
func (r *Requester) Prepare(o *Outgoing, acts []Action) []Action {
	if r.lost == nil && r.passes(o) && r.may(o) && r.reserve(o) {
		acts = r.wantReceives(acts)
	}
	return acts
}

// maxSpare is the most receives to have for the transmissions of replies after
// the first: as many as there are credits, or enough for one reply.
func (r *Requester) maxSpare() int {
	most := int(r.spend.Max())
	return min(max(most, transmission.Limit-1), r.cfg.MaxReceives-credit.Slack-most)
}

// reserve reserves what o's reply may take, if it is to be had. did says that it
// was reserved now: the receives are asked for once, and o goes without when
// there is no memory for them.
func (r *Requester) reserve(o *Outgoing) (did bool) {
	if !o.transmitted || o.spare > 0 || int(r.spend.Spare()+o.xmit.spare) > r.maxSpare() {
		return false
	}
	o.spare = o.xmit.spare
	r.spend.Reserve(o.spare)
	return o.spare > 0
}

// spared says whether the receives for o's reply are there.
func (r *Requester) spared(o *Outgoing) bool {
	return !o.transmitted || (o.spare == o.xmit.spare && (o.spare == 0 || r.spend.Spared()))
}

// overspared says that o's reply was planned for more receives than there can be
// now: credits.max rose since, and credits have the first claim on the queue.
func (r *Requester) overspared(o *Outgoing) bool {
	return o.transmitted && int(o.xmit.spare) > max(r.maxSpare(), 0)
}

// hopeless says that nothing that will happen lets o go as it was planned:
// there will never be the credits or the receives, or there is no memory for
// these.
func (r *Requester) hopeless(o *Outgoing) bool {
	return (r.spend.Hopeless(o.uses) && !r.awaitsGrant(o)) || r.overspared(o) || (o.spare > 0 && !r.spend.Spared())
}

// awaitsGrant says that o, of several transmissions, waits for the first grant.
// In the reverse direction nothing else is left for it, and short calls pass it:
// the answer to one of them brings the grant.
func (r *Requester) awaitsGrant(o *Outgoing) bool {
	return r.cfg.Reverse && !r.spend.Known() && o.uses > 1 && o.uses <= r.spend.Max()
}

// passes says that o need not wait for those that do.
func (r *Requester) passes(o *Outgoing) bool {
	return len(r.waiting) == 0 || (o.uses == 1 && r.head() == len(r.waiting))
}

// head is the index of the call whose turn it is of those that wait, if there is
// one.
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

// unwait takes a call out of those that wait.
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

// withdraw has o, which is hopeless, planned anew: without transmissions, unless
// fewer receives will do.
func (r *Requester) withdraw(o *Outgoing) {
	o.Err, o.direct = ErrReplan, o.direct || !r.overspared(o)
	r.release(o)
}

// abandon notes that o was given up after it was sent: what it holds comes back
// with its answer.
func (r *Requester) abandon(o *Outgoing) {
	r.sent[o.XID] = nil
	if o.uses == 1 && o.spare == 0 {
		return
	}
	if r.debts == nil {
		r.debts = make(map[uint32]debt)
	}
	r.debts[o.XID] = debt{o.uses, o.spare}
	o.spare = 0
}

// settle takes the answer to a call that was given up.
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

// mayAnswer is the most transmissions that the answer to a call may have, which
// was given up if o is nil.
func (r *Requester) mayAnswer(xid uint32, o *Outgoing) uint32 {
	if o == nil {
		return 1 + r.debts[xid].spare
	}
	return 1 + o.spare
}
