package referee

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

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

// recent are the last messages of a side.
type recent struct {
	ring[sent2]
	lost bool // older messages were dropped
}

func (r *recent) add(s sent2) { r.lost = r.ring.add(s, maxRecent) || r.lost }

// has reports whether ok holds for a message that was sent, or may hold for a
// dropped one.
func (r *recent) has(ok func(sent2) bool) bool {
	return r.lost || slices.ContainsFunc(r.list, ok)
}
