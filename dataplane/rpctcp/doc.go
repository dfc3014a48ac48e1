// Package rpctcp is ONC RPC over TCP (RFC 5531 §11): a server that runs the
// same oncrpc.Handler as RPC-over-RDMA does, and a small pipelined client.
//
// Nothing that a peer does makes the server hold more than its limits:
// connections, calls in flight on each, bytes of a record, bytes of memory for
// calls and for replies, time for a record to arrive, for a reply to be taken
// and without a call. A peer over a limit waits or loses its connection, with
// one log line that says why; the others are served on.
//
// A caller's duties: Shutdown or Close every Server and Close every Client;
// both return when no goroutine of theirs is left.
package rpctcp
