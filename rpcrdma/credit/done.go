package credit

// RDMA_DONE takes a receive at the responder and gets no answer, so that no
// credit can come back for it (RFC 5666 §3.8, §11). Neither side relies on the other's
// bookkeeping:
//
//   - the responder has a receive posted for every DONE that may come, beyond
//     those for the calls that it granted;
//   - the requester lets a DONE take the credit of the call that it
//     acknowledges, until an answer shows that it has arrived. With nothing in
//     flight it makes one call all the same: no answer would ever come.

// Reserve counts a DONE that may come. Want asks for its receive; the DONE may
// be provoked once Ready says that it is posted.
func (g *Grants) Reserve() { g.dones++ }

// Unreserve counts a DONE less that will not come.
func (g *Grants) Unreserve() { g.dones-- }

// Dones is the number of DONEs that may come.
func (g *Grants) Dones() int { return g.dones }

// Ready says whether everything that the peer may send finds a receive.
func (g *Grants) Ready() bool { return g.posted+g.held >= g.limit+Slack+g.dones }

// Done counts a DONE that arrived and was reserved for. repost says whether its
// receive is to be posted again; else it is to be freed.
func (g *Grants) Done() (repost bool) {
	g.dones--
	if repost = g.posted+g.held < max(g.limit, g.target)+Slack+g.dones; repost {
		g.posted++
	}
	return repost
}

// Owe counts a DONE that is due, with the answer that makes it so.
func (s *Spend) Owe() { s.dones++ }

// DonesArrived counts n DONEs that an answer shows to have arrived.
func (s *Spend) DonesArrived(n uint32) { s.dones -= n }
