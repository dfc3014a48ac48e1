// Package rpctcp is ONC RPC over TCP (RFC 5531 §11): a server that runs the
// same oncrpc.Handler as RPC-over-RDMA does, and a small pipelined client.
//
// Nothing that a peer does makes the server hold more than its limits:
// connections, in all and of one address; calls in flight on each; bytes of a
// record; bytes of memory for calls and for replies; time behind Floor with a
// record or with replies; time without a call. A peer over a limit waits or loses
// its connection, with one log line that says why; the others are served on.
//
// A record takes memory as its bytes arrive. Each connection has a share of each
// memory, and one small call that waits for nobody. While others wait, the
// connections that hold most go, of those whose peers make too little progress:
// see Relief.
//
// A caller's duties: Shutdown or Close every Server and Close every Client;
// both return when no goroutine of theirs is left.
package rpctcp
