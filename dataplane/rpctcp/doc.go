// Package rpctcp implements ONC RPC over TCP (RFC 5531 §11): a server that runs the same
// oncrpc.Handler as RPC-over-RDMA, and a small pipelined client.
//
// No peer can make the server hold more than its limits: connections, in total and per
// address; calls in flight on each; the size of a record; memory for calls and for replies;
// time behind Floor with a record or with replies; time without a call. A peer over a limit
// waits or is disconnected, with one log line that says why. Other peers are still served.
//
// A record takes memory as its bytes arrive. Each connection has a share of each memory,
// and one small call that never waits. While others wait, the server ends those connections
// that hold most and whose peers make too little progress: see Relief.
//
// The caller must Shutdown or Close every Server, and Close every Client. Both return when
// all their goroutines have ended.
package rpctcp
