package credit

// Spend is the requester's side of one direction.
//
// A call takes a receive for its answer, so that calls are bounded by the
// receives posted as well as by the grant.
type Spend struct {
	granted  uint32
	inflight uint32
	dones    uint32 // DONEs that are due, or not known to have arrived
	max      uint32
	posted   uint32 // receives posted
	asked    uint32 // receives asked for by Want and not confirmed yet
	spare    uint32 // receives reserved for long replies
	known    bool   // an answer brought the grant
}

// Start sets the most calls that we want in flight, at least 1. Until the
// first reply there is one credit (RFC 8166 §3.3.1).
func (s *Spend) Start(max uint32) {
	*s = Spend{granted: 1}
	s.SetMax(max)
}

// SetMax changes the most calls that we want in flight, at least 1.
func (s *Spend) SetMax(n uint32) { s.max = max(n, 1) }

// Max is the number of credits to ask for.
func (s *Spend) Max() uint32 { return s.max }

// Granted is the grant in force.
func (s *Spend) Granted() uint32 { return s.granted }

// Known says that an answer brought the grant. Before the first answer it is 1,
// whatever the peer will grant.
func (s *Spend) Known() bool { return s.known }

// InFlight is the number of calls sent and not answered.
func (s *Spend) InFlight() uint32 { return s.inflight }

// Limit is the number of calls that may be in flight now.
func (s *Spend) Limit() uint32 {
	return min(s.granted, s.max, s.posted-min(s.posted, Slack+s.spare))
}

// Can says whether another call may be sent. DONEs count like calls, but never
// keep the only call back (see Owe).
func (s *Spend) Can() bool {
	n := s.Limit()
	return s.inflight+s.dones < n || (s.inflight == 0 && n > 0)
}

// Want says how many more receives are to be posted to make use of the grant,
// and counts on it that Confirm will say how many were.
func (s *Spend) Want() uint32 {
	want, have := min(s.granted, s.max)+Slack+s.spare, s.posted+s.asked
	if have >= want {
		return 0
	}
	s.asked += want - have
	return want - have
}

// Confirm says that of asked receives that Want asked for, n were posted.
func (s *Spend) Confirm(asked, n uint32) {
	s.asked -= asked
	s.posted += n
}

// Arrive counts a message that arrived: it took a posted receive.
func (s *Spend) Arrive() { s.posted-- }

// Repost says whether the receive of a message that was dealt with is to be
// posted again, and counts it if so.
func (s *Spend) Repost() bool {
	if s.posted+s.asked >= max(min(s.granted, s.max), s.inflight)+Slack+s.spare {
		return false
	}
	s.posted++
	return true
}

// Call counts a call sent. The caller has asked Can.
func (s *Spend) Call() { s.inflight++ }

// Answer counts an answer to a call and takes the grant that it carries; 0 is
// read as 1, so that a careless responder can't stop the connection for ever.
func (s *Spend) Answer(grant uint32) { s.AnswerGroup(1, grant) }

// Return takes a call back that was counted and never sent.
func (s *Spend) Return() { s.inflight-- }

// Posted is the number of receives posted now.
func (s *Spend) Posted() uint32 { return s.posted }
