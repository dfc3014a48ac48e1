package credit

// Grants is the responder's side of one direction. The invariant is
//
//	posted + held >= limit + Slack + dones
//
// where held calls have a receive each that comes free with their answer, limit
// bounds the calls that the peer may have sent and not seen answered, and dones
// are the DONEs that it may send besides (Reserve).
type Grants struct {
	target int // what policy wants to grant
	limit  int // what the peer may count on
	posted int // receives posted
	asked  int // receives asked for by Want and not confirmed yet
	held   int // calls received and not answered
	dones  int // DONEs that may come
	told   uint32
}

// Start begins with what policy wants to grant, at least 1 and for the time
// being at most Initial: a connection that never calls costs no more receives.
// Nothing is posted yet; Want says what to post.
func (g *Grants) Start(target int) {
	n := min(max(target, 1), Initial)
	*g = Grants{target: n, limit: n, told: 1}
}

// SetTarget changes what policy wants to grant, at least 1. Raising it takes
// effect once the receives that Want then asks for are posted; lowering it in
// the next grants.
func (g *Grants) SetTarget(n int) { g.target = max(n, 1) }

// Target is what policy wants to grant.
func (g *Grants) Target() int { return g.target }

// Limit is the number of calls that the peer may have in flight.
func (g *Grants) Limit() int { return g.limit }

// Held is the number of calls received and not answered.
func (g *Grants) Held() int { return g.held }

// Told is the last grant that a reply carried; 1, which is what the peer
// assumes, before the first.
func (g *Grants) Told() uint32 { return g.told }

// Posted is the number of receives posted now.
func (g *Grants) Posted() int { return g.posted }

// Want says how many more receives are to be posted, and counts on it that
// Confirm will say how many were.
func (g *Grants) Want() int {
	n := max(g.limit, g.target) + Slack + g.dones - g.held - g.posted - g.asked
	if n <= 0 {
		return 0
	}
	g.asked += n
	return n
}

// Confirm says that of asked receives that Want asked for, n were posted.
func (g *Grants) Confirm(asked, n int) {
	g.asked -= asked
	g.posted += n
}

// Arrive counts a message that arrived: it took a posted receive.
func (g *Grants) Arrive() { g.posted-- }

// Repost counts the receive of a message that is no call: it is posted again.
func (g *Grants) Repost() { g.posted++ }

// Call counts a message that arrived as a call, which holds its receive until
// its answer.
func (g *Grants) Call() error {
	if g.held >= g.limit {
		return ErrOverrun
	}
	g.held++
	return nil
}

// Drop counts a call that is never answered; its receive is posted again.
func (g *Grants) Drop() {
	g.held--
	g.posted++
}

// Answer counts the answer to a call and gives the grant that it carries.
// repost says whether the call's receive is to be posted again, before the
// answer; else it is to be freed.
//
// The limit falls by one with each answer that grants less: a peer that has
// seen k such answers has at most limit-k calls that are older than the
// lower grant, and those it has not seen are answered already.
func (g *Grants) Answer() (grant uint32, repost bool) {
	grant, n := g.AnswerGroup(1)
	return grant, n == 1
}
