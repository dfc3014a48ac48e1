// Package rpcrdma is RPC-over-RDMA version 1 (RFC 8166) for Go programs:
// Listen serves ONC RPC calls on connections of a verbs provider, Dial makes
// calls over one.
//
// A caller's duties:
//
//   - answer every Request with Accept or Reject;
//   - Close every Conn and Client, or wait for its Done, before the Listener's
//     or Client's provider is closed; closing a Listener leaves its
//     connections up;
//   - not to call Close or Drain of a connection from its own handler.
//
// All sizes are in bytes.
package rpcrdma
