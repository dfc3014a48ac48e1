// Package fair divides memory and work between connections, so that no connection
// takes another's part. RPC over TCP, connectors and the RPC-over-RDMA transport
// use it.
//
// Pool divides bytes: each holder has a guaranteed share, and above it borrows
// bytes that others leave free. Pace says whether a holder gives back what it
// holds. Queue orders work by weighted fair queueing.
//
// A caller's duties:
//
//   - Release to the Share what was acquired from it, once;
//   - Leave when the connection has ended; what is still held stays counted until
//     it is released;
//   - call a Queue's methods under one lock of the caller's.
package fair
