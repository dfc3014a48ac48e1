// Package credit implements the arithmetic of RPC-over-RDMA flow control (RFC 8166 §3.3.1):
// what a responder may grant, what a requester may send, and how many receives that needs.
// It does no I/O and uses no clock.
//
// The caller must:
//
//   - report to Grants every receive that it posted, every message that arrived and every
//     answer, in the order in which they happen on the connection;
//   - post what Grants asks for. A grant rises only after that.
package credit

import "errors"

// ErrOverrun means that the peer sent more calls than it was granted.
var ErrOverrun = errors.New("credit: peer exceeds its credits")

// Slack is the number of receives posted in addition to the credits. With them, a message
// that takes no credit, or one too many, arrives instead of being refused by the device.
const Slack = 2

// Initial is how many calls a peer may send before it has the first grant. The protocol
// says one. Receives for a few more cost little, and a hasty peer keeps its connection.
const Initial = 8
