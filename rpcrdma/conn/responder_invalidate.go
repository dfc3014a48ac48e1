package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// onlyHandle returns the STag of a header that has exactly one distinct STag. Only then may
// a reply invalidate it. With more than one, another may be a client's shared padding
// buffer, which the client must not lose (Linux svcrdma has the same rule). A segment
// without bytes names no memory, so its STag is ignored.
func onlyHandle(h *Header) (rkey uint32, only bool) {
	found := false
	see := func(s *rpcrdma1.Segment) bool {
		if s.Length == 0 {
			return true
		}
		if found && s.Handle != rkey {
			return false
		}
		rkey, found = s.Handle, true
		return true
	}
	for i := range h.Reads {
		if !see(&h.Reads[i].Segment) {
			return 0, false
		}
	}
	for _, w := range h.Writes {
		for i := range w {
			if !see(&w[i]) {
				return 0, false
			}
		}
	}
	for i := range h.Reply {
		if !see(&h.Reply[i]) {
			return 0, false
		}
	}
	return rkey, found
}
