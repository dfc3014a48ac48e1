package conn

// debt is what the answer to a call that was given up gives back.
type debt struct{ uses, spare uint32 }

// Prepare is the event that o, which is planned, is about to begin: it gives the
// receives to post before Begin for a long reply.
func (r *Requester) Prepare(o *Outgoing, acts []Action) []Action {
	if r.lost != nil || !o.transmitted || o.xmit.spare == 0 {
		return acts
	}
	o.spare = o.xmit.spare
	r.spend.Reserve(o.spare)
	return r.wantReceives(acts)
}

// spared says whether the receives for o's reply are there. Without, and when
// there will never be the credits, it is to go without transmissions.
func (r *Requester) spared(o *Outgoing) bool {
	if !o.transmitted {
		return true
	}
	ok := o.spare == o.xmit.spare && (o.spare == 0 || r.spend.Spared())
	if ok && (len(r.waiting) > 0 || !r.spend.Hopeless(o.uses)) {
		return true
	}
	r.release(o)
	o.Direct = true
	return false
}

// release gives up the receives that were reserved for o's reply.
func (r *Requester) release(o *Outgoing) {
	if o.spare > 0 {
		r.spend.Release(o.spare)
		r.spend.SetMax(r.credits())
		o.spare = 0
	}
}

// direct has o, which waits for credits, planned anew.
func (r *Requester) direct(o *Outgoing, acts []Action) []Action {
	r.release(o)
	o.Err, o.Direct = ErrReplan, true
	return r.finish(o, acts)
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
