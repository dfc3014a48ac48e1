package credit

// RDMA_DONE takes a receive at the responder and gets no answer, so no credit comes back
// for it (RFC 5666 §3.8, §11). Neither side relies on the other's accounting:
//
//   - the responder has a receive posted for every DONE that may come, in addition to those
//     for the granted calls;
//   - the requester lets a DONE hold the credit of the call that it acknowledges, until an
//     answer shows that the DONE has arrived. With nothing in flight it makes one call
//     anyway, because otherwise no answer would come.

// Reserve counts a DONE that may come. Want asks for its receive. The reply that the DONE
// acknowledges may be sent once Ready reports that the receive is posted.
func (g *Grants) Reserve() { g.dones++ }

// Unreserve uncounts a DONE that will not come.
func (g *Grants) Unreserve() { g.dones-- }

// Dones returns the number of DONEs that may come.
func (g *Grants) Dones() int { return g.dones }

// Ready reports whether there is a receive for everything that the peer may send.
func (g *Grants) Ready() bool { return g.posted+g.held >= g.limit+Slack+g.dones }

// Done counts a reserved DONE that arrived. repost means that its receive must be posted
// again; otherwise it must be freed.
func (g *Grants) Done() (repost bool) {
	g.dones--
	if repost = g.posted+g.held < max(g.limit, g.target)+Slack+g.dones; repost {
		g.posted++
	}
	return repost
}

// Owe counts a DONE that is due because of an answer.
func (s *Spend) Owe() { s.dones++ }

// DonesArrived counts n DONEs that have arrived, as an answer shows.
func (s *Spend) DonesArrived(n uint32) { s.dones -= n }
