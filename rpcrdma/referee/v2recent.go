package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/xdr2"

// maxRecent is how many messages of a side are remembered for XMTERR and errors.
const maxRecent = 512

// sent2 is a message of version 2 that was sent.
type sent2 struct {
	xid  uint32
	dir  xdr2.Msg_type
	seq  uint32 // in its group
	bare bool   // an operation that waits for no answer, as far as is known
	any  bool   // its header could not be decoded
}

// recent are the last messages of a side, a ring.
type recent struct {
	list []sent2
	next int
	lost bool // there were others
}

func (r *recent) add(s sent2) {
	if len(r.list) < maxRecent {
		r.list = append(r.list, s)
		return
	}
	r.list[r.next] = s
	r.next, r.lost = (r.next+1)%maxRecent, true
}

// has says whether ok holds for a message that was sent, or may have been.
func (r *recent) has(ok func(sent2) bool) bool {
	for _, s := range r.list {
		if ok(s) {
			return true
		}
	}
	return r.lost
}
