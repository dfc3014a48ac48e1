// Package fair divides memory and work fairly between connections. RPC over TCP, connectors
// and the RPC-over-RDMA transport use it.
//
// Pool divides bytes. Each holder has a guaranteed share, and may borrow bytes beyond it
// that others leave free. Pace checks whether a holder gives back what it holds. Queue
// orders work by weighted fair queueing. Walk leaves processors to calls during a walk over all
// connections, and a Mark lets such a walk leave out those that did nothing.
//
// The caller must:
//
//   - Release to the Share what it acquired from it, once;
//   - call Leave when the connection has ended. Bytes that are still held count until they
//     are released;
//   - call a Queue's methods under one lock.
package fair
