// Package rpcrdma implements RPC-over-RDMA version 1 (RFC 8166) for Go programs. Listen
// serves ONC RPC calls on connections of a verbs provider. Dial connects to a server and
// makes calls.
//
// The caller must:
//
//   - answer every Request with Accept or Reject;
//   - Close every Client, even if it is drained or its connection has ended, every Listener,
//     and every Conn, or wait for the Conn's Done, before closing the provider. Closing a
//     Listener leaves its connections up;
//   - not call Close or Drain of a connection from its own handler.
//
// All sizes are in bytes.
package rpcrdma
