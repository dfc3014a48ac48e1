package credit

// Settle ends the setup, before the peer knows of the connection. If fewer receives were
// posted than Want asked for, the peer gets fewer credits until there are more. It returns
// false if there is no receive even for one call. The connection must not be made then.
func (g *Grants) Settle() bool {
	n := g.posted - Slack - g.dones
	if n < 1 {
		return false
	}
	g.limit = min(g.limit, n)
	return true
}
