package credit

// A call of several transmissions takes a credit and a receive of the responder
// for each, all of which come back with its answer. A reply of several takes
// receives of the requester beyond the one that every call has: they are
// reserved before the call goes out.

// CanGroup says whether a call of n transmissions may be sent. DONEs count
// like calls; they keep only a single transmission from being kept back.
func (s *Spend) CanGroup(n uint32) bool {
	if n <= 1 {
		return s.Can()
	}
	return s.inflight+s.dones+n <= s.Limit()
}

// Hopeless says that no answer to come lets a call of n transmissions go:
// nothing is in flight, or it takes more than the credits that there are.
func (s *Spend) Hopeless(n uint32) bool {
	return n > 1 && !s.CanGroup(n) && (s.inflight == 0 || n > s.Limit())
}

// CallGroup counts a call of n transmissions sent. The caller has asked
// CanGroup.
func (s *Spend) CallGroup(n uint32) { s.inflight += n }

// ReturnGroup takes a call back that was counted and never sent.
func (s *Spend) ReturnGroup(n uint32) { s.inflight -= n }

// AnswerGroup is Answer for a call of n transmissions.
func (s *Spend) AnswerGroup(n, grant uint32) {
	s.inflight -= n
	s.granted, s.known = max(grant, 1), true
}

// Reserve keeps n receives for the transmissions of a reply after its first.
// Want asks for them; with them posted, Spared is true.
func (s *Spend) Reserve(n uint32) { s.spare += n }

// Release gives n receives up that were reserved.
func (s *Spend) Release(n uint32) { s.spare -= n }

// Spare is the number of receives reserved.
func (s *Spend) Spare() uint32 { return s.spare }

// Spared says whether the receives reserved are posted, and those of the calls
// in flight, and one for a call at least.
func (s *Spend) Spared() bool { return s.posted >= Slack+s.spare+max(s.inflight, 1) }

// Asked says that Confirm will follow.
func (s *Spend) Asked() bool { return s.asked > 0 }

// Dones is the number of DONEs that are due, or not known to have arrived.
func (s *Spend) Dones() uint32 { return s.dones }

// AnswerGroup counts the answer to a call of n transmissions: it gives the
// grant that it carries, and how many of the call's receives are to be posted
// again before it; the others are to be freed. See Answer.
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

// DropGroup counts a call of n transmissions that is never answered; its
// receives are posted again.
func (g *Grants) DropGroup(n int) {
	g.held -= n
	g.posted += n
}
