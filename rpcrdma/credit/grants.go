package credit

// Grants is the responder's side of one direction. The invariant is
//
//	posted + held >= limit + Slack + dones
//
// Each of the held calls has a receive that becomes free with its answer. limit bounds the
// calls that the peer may have sent without seeing their answers. dones are the DONEs that
// it may send in addition (Reserve).
type Grants struct {
	target int // what the policy asks to grant
	limit  int // what the peer may rely on
	posted int // receives posted
	asked  int // receives requested by Want and not confirmed yet
	held   int // calls received and not answered
	dones  int // DONEs that may come
	told   uint32
}

// Start begins with what the policy asks to grant, at least 1. At first it grants at most
// Initial, so a connection that makes no calls needs no more receives. Nothing is posted
// yet. Want returns what to post.
func (g *Grants) Start(target int) {
	n := min(max(target, 1), Initial)
	*g = Grants{target: n, limit: n, told: 1}
}

// SetTarget changes what the policy asks to grant, at least 1. A higher target takes effect
// once the receives that Want then asks for are posted, a lower one in the next grants.
func (g *Grants) SetTarget(n int) { g.target = max(n, 1) }

// Target returns what the policy asks to grant.
func (g *Grants) Target() int { return g.target }

// Limit returns the number of calls that the peer may have in flight.
func (g *Grants) Limit() int { return g.limit }

// Held returns the number of calls received and not answered.
func (g *Grants) Held() int { return g.held }

// Told returns the last grant sent in a reply. Before the first it is 1, which the peer
// assumes.
func (g *Grants) Told() uint32 { return g.told }

// Posted returns the number of receives posted now.
func (g *Grants) Posted() int { return g.posted }

// Want returns how many more receives to post. Confirm must then report how many were
// posted.
func (g *Grants) Want() int {
	n := max(g.limit, g.target) + Slack + g.dones - g.held - g.posted - g.asked
	if n <= 0 {
		return 0
	}
	g.asked += n
	return n
}

// Confirm reports that n of asked receives were posted.
func (g *Grants) Confirm(asked, n int) {
	g.asked -= asked
	g.posted += n
}

// Arrive counts a message that arrived and consumed a posted receive.
func (g *Grants) Arrive() { g.posted-- }

// Repost counts the receive of a message that is not a call. It is posted again.
func (g *Grants) Repost() { g.posted++ }

// Call counts a message that arrived as a call. It holds its receive until its answer.
func (g *Grants) Call() error {
	if g.held >= g.limit {
		return ErrOverrun
	}
	g.held++
	return nil
}
