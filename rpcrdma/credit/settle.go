package credit

// Settle ends the start, before the peer knows of the connection: if fewer
// receives could be posted than Want asked for, the peer may count on fewer
// calls until there are more. It says whether there is one for a single call;
// without, the connection must not be made.
func (g *Grants) Settle() bool {
	n := g.posted - Slack - g.dones
	if n < 1 {
		return false
	}
	g.limit = min(g.limit, n)
	return true
}
