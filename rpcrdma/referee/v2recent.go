package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/goxdr"

// maxRecent is how many messages of a side are remembered for XMTERR and ERROR.
const maxRecent = 512

// sent2 is a message that a side sent.
type sent2 struct {
	xid  uint32
	dir  goxdr.Msg_type
	seq  uint32 // in its group
	bare bool   // an operation that, as far as is known, waits for no answer
	any  bool   // its header could not be decoded
}

// recent are the last messages of a side, in a ring.
type recent struct {
	list []sent2
	next int
	lost bool // older messages were dropped
}

func (r *recent) add(s sent2) {
	if len(r.list) < maxRecent {
		r.list = append(r.list, s)
		return
	}
	r.list[r.next] = s
	r.next, r.lost = (r.next+1)%maxRecent, true
}

// has reports whether ok holds for a message that was sent, or may hold for a
// dropped one.
func (r *recent) has(ok func(sent2) bool) bool {
	for _, s := range r.list {
		if ok(s) {
			return true
		}
	}
	return r.lost
}
