package conn

// onlyHandle gives the STag of a header that holds exactly one distinct STag.
// Only then may a reply invalidate it: with more than one, another may be a
// client's shared padding buffer, which it must not lose (svcrdma's rule).
func onlyHandle(h *Header) (rkey uint32, only bool) {
	found := false
	see := func(k uint32) bool {
		if found && k != rkey {
			return false
		}
		rkey, found = k, true
		return true
	}
	for i := range h.Reads {
		if !see(h.Reads[i].Handle) {
			return 0, false
		}
	}
	for _, w := range h.Writes {
		for i := range w {
			if !see(w[i].Handle) {
				return 0, false
			}
		}
	}
	for i := range h.Reply {
		if !see(h.Reply[i].Handle) {
			return 0, false
		}
	}
	return rkey, found
}
