package credit

// A call of several transmissions takes that many credits and receives of the responder.
// All come back with its answer. A reply of several transmissions takes receives of the
// requester in addition to the one that every call has. They are reserved before the call
// goes out.

// CanGroup reports whether a call of n transmissions may be sent. DONEs count like calls,
// but never hold back a single transmission when nothing is in flight.
func (s *Spend) CanGroup(n uint32) bool {
	if n <= 1 {
		return s.Can()
	}
	return s.inflight+s.dones+n <= s.Limit()
}

// Hopeless reports whether no future answer can let a call of n transmissions go: nothing
// is in flight, or it needs more credits than there are.
func (s *Spend) Hopeless(n uint32) bool {
	return n > 1 && !s.CanGroup(n) && (s.inflight == 0 || n > s.Limit())
}

// CallGroup counts a call of n transmissions that is sent. CanGroup must have allowed it.
func (s *Spend) CallGroup(n uint32) { s.inflight += n }

// ReturnGroup uncounts a call that was counted and never sent.
func (s *Spend) ReturnGroup(n uint32) { s.inflight -= n }

// AnswerGroup is Answer for a call of n transmissions.
func (s *Spend) AnswerGroup(n, grant uint32) {
	s.inflight -= n
	s.granted, s.known = max(grant, 1), true
}

// Reserve reserves n receives for the transmissions of a reply after the first. Want asks
// for them. Once they are posted, Spared is true.
func (s *Spend) Reserve(n uint32) { s.spare += n }

// Release gives up n reserved receives.
func (s *Spend) Release(n uint32) { s.spare -= n }

// Spare returns the number of receives reserved.
func (s *Spend) Spare() uint32 { return s.spare }

// Spared reports whether the receives for the reservations, for the calls in flight, and
// for at least one call are posted.
func (s *Spend) Spared() bool { return s.posted >= Slack+s.spare+max(s.inflight, 1) }

// Asked reports whether a Confirm is outstanding.
func (s *Spend) Asked() bool { return s.asked > 0 }

// Dones returns the number of DONEs that are due or not known to have arrived.
func (s *Spend) Dones() uint32 { return s.dones }

// AnswerGroup counts the answer to a call of n transmissions. It returns the grant to send
// in it, and how many of the call's receives must be posted again before it. The others
// must be freed.
//
// The limit falls by n with each answer that grants less. A peer that has seen k answers to
// calls of one transmission has at most limit-k calls that are older than the lower grant.
// The calls whose answers it has not seen are answered already.
func (g *Grants) AnswerGroup(n int) (grant uint32, repost int) {
	g.held -= n
	can := g.posted + n + g.held - Slack - g.dones // with this call's receives
	k := max(min(g.target, can), 1)
	g.limit = max(k, g.limit-n)
	for repost < n && g.posted+g.held < max(g.limit, g.target)+Slack+g.dones {
		g.posted++
		repost++
	}
	g.told = uint32(k)
	return g.told, repost
}

// DropGroup counts a call of n transmissions that is never answered. Its receives are
// posted again.
func (g *Grants) DropGroup(n int) {
	g.held -= n
	g.posted += n
}
