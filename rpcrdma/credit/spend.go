package credit

// Spend is the requester's side of one direction.
//
// A call needs a receive for its answer, so the posted receives limit the calls as well as
// the grant does.
type Spend struct {
	granted  uint32
	inflight uint32
	dones    uint32 // DONEs that are due or not known to have arrived
	max      uint32
	posted   uint32 // receives posted
	asked    uint32 // receives requested by Want and not confirmed yet
	spare    uint32 // receives reserved for long replies
	known    bool   // an answer set the grant
}

// Start sets how many calls we want in flight, at least 1. Until the first reply there is
// one credit (RFC 8166 §3.3.1).
func (s *Spend) Start(max uint32) {
	*s = Spend{granted: 1}
	s.SetMax(max)
}

// SetMax changes how many calls we want in flight, at least 1.
func (s *Spend) SetMax(n uint32) { s.max = max(n, 1) }

// Max returns the number of credits to ask for.
func (s *Spend) Max() uint32 { return s.max }

// Granted returns the current grant.
func (s *Spend) Granted() uint32 { return s.granted }

// Known reports whether an answer set the grant. Before the first answer it is 1, whatever
// the peer will grant.
func (s *Spend) Known() bool { return s.known }

// InFlight returns the number of calls sent and not answered.
func (s *Spend) InFlight() uint32 { return s.inflight }

// Limit returns the number of calls that may be in flight now.
func (s *Spend) Limit() uint32 {
	return min(s.granted, s.max, s.posted-min(s.posted, Slack+s.spare))
}

// Can reports whether another call may be sent. DONEs count like calls, but never hold back
// the only call (see Owe).
func (s *Spend) Can() bool {
	n := s.Limit()
	return s.inflight+s.dones < n || (s.inflight == 0 && n > 0)
}

// Want returns how many more receives to post to use the grant. Confirm must then report
// how many were posted.
func (s *Spend) Want() uint32 {
	want, have := min(s.granted, s.max)+Slack+s.spare, s.posted+s.asked
	if have >= want {
		return 0
	}
	s.asked += want - have
	return want - have
}

// Confirm reports that n of asked receives were posted.
func (s *Spend) Confirm(asked, n uint32) {
	s.asked -= asked
	s.posted += n
}

// Arrive counts a message that arrived and consumed a posted receive.
func (s *Spend) Arrive() { s.posted-- }

// Repost reports whether the receive of a processed message must be posted again, and
// counts it if so.
func (s *Spend) Repost() bool {
	if s.posted+s.asked >= max(min(s.granted, s.max), s.inflight)+Slack+s.spare {
		return false
	}
	s.posted++
	return true
}

// Call counts a call that is sent. Can must have allowed it.
func (s *Spend) Call() { s.inflight++ }

// Answer counts an answer to a call and stores its grant. A grant of 0 counts as 1, so that
// a faulty responder cannot stop the connection forever.
func (s *Spend) Answer(grant uint32) { s.AnswerGroup(1, grant) }

// Posted returns the number of receives posted now.
func (s *Spend) Posted() uint32 { return s.posted }
