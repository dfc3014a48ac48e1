// Package credit does the arithmetic of RPC-over-RDMA flow control (RFC 8166
// §3.3.1): what a responder may grant, what a requester may send, and how
// many receives that takes. It is pure accounting: no I/O, no clock.
//
// A caller's duties:
//
//   - tell Grants every receive that it posted, every message that arrived
//     and every answer, in the order in which they happen on the connection;
//   - post what Grants asks for; a grant rises only after that.
package credit

import "errors"

// ErrOverrun means that the peer sent more calls than it was ever granted.
var ErrOverrun = errors.New("credit: peer exceeds its credits")

// Slack is the number of receives posted beyond the credits, so that a
// message that takes no credit, or an overrun, is seen rather than refused by
// the device.
const Slack = 2

// Initial is how many calls a peer may send before the first grant reached it.
// The protocol says one; receives for a few more are cheap and spare a hasty
// peer its connection.
const Initial = 8
