// Package forward is the service that passes calls on to an ONC RPC server on
// TCP, the upstream: one upstream connection for each connection of a client,
// as NFSv4 sessions and callbacks bind to connections.
//
// Calls keep their XIDs, credentials and verifiers, and go out as they come,
// items straight from where RDMA Read placed them. Replies are walked by the
// program's binding while they arrive: DDP-eligible results go from the socket
// into registered memory, everything else into the reply's stream, header and
// verifier included. Calls of the upstream go to the client once its back
// channel is open.
//
// A caller's duties:
//
//   - OpenConn for each connection, as package perconn says;
//   - nothing at the end: a Forwarder holds nothing but its connections.
//
// Memory: a connection has two goroutines' stacks, 16 KiB to read ahead, and for
// each call in flight what the reply's stream needs: as much as has arrived, at
// most Config.MaxRecord. Calls of the upstream take up to 64 KiB each, 64 of
// them at once.
//
// Lock order: Session.mu is a leaf.
package forward
