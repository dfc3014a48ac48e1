package conn

import "github.com/rdmad/rdmad/rpcrdma/chunk"

// Cut-through. RDMA Writes of a result may be posted while the service still waits for the
// rest of it. The peer may not look into a write chunk before the reply (RFC 5666 §3.4),
// whose header has the length. So a call whose service fails after that is answered like any
// other: the error returns the chunk with length 0.

// Filled is the event that the first n bytes of result i, of size bytes in all, are final.
// It comes between Deliver and Reply. The reply must have this result, or be an error.
// Nothing is written unless it is certain that the reply puts the result into its write
// chunk: that depends on no other result.
func (r *Responder) Filled(c *Call, i, size, n int, acts []Action) []Action {
	h := &c.header
	if r.dead || c.transmitted || i >= len(h.Writes) {
		return acts
	}
	for len(c.ahead) <= i {
		c.ahead = append(c.ahead, 0)
	}
	from := c.ahead[i]
	if n <= from || from == 0 && !chunked(h.Writes[i], size, r.least(h)) {
		return acts
	}
	c.ahead[i] = n
	c.Ahead = chunk.Part(c.Ahead[:0], h.Writes[i], from, chunk.Piece{From: chunk.Source(i), Off: from, Len: n - from}, r.cfg.MaxTransfer)
	return append(acts, Write{Call: c})
}

// resume sets Written of the results of a reply.
func (c *Call) resume(items []chunk.Item) {
	for i := range items[:min(len(items), len(c.ahead))] {
		items[i].Written = c.ahead[i]
	}
	c.ahead = c.ahead[:0]
}
