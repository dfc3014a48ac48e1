// Package forward is the service that forwards calls to an ONC RPC server on TCP, the
// upstream. It has one upstream connection for each client connection, because NFSv4
// sessions and callbacks are bound to connections.
//
// No goroutine waits for the reply to a call. The goroutine that finds the call sends it, and
// the goroutine that reads the upstream answers it without waiting for the client.
//
// Calls keep their XIDs, credentials and verifiers. They are sent unchanged, with items
// directly from the memory into which RDMA Read placed them, long ones while RDMA Read still
// places them. The program's binding walks replies while they arrive. DDP-eligible results go
// from the socket into registered memory, everything else, with header and verifier, into the
// reply's stream. Parts of long results are final before the rest has come, and may go to the
// client. Calls of the upstream go to the client once its back channel is open.
//
// The caller must call OpenConn for each connection, as package perconn describes. Nothing
// needs to be closed at the end: a Forwarder holds only its connections.
//
// Memory: a connection has two goroutines' stacks, 16 KiB to read ahead, and for each call
// in flight the reply's stream: at most 128 KiB, or, once 64 KiB have arrived, the whole reply. If
// its length is not known, that is rpcrdma.MaxMessage, or else Config.MaxRecord. Calls of the
// upstream take up to 64 KiB each, at most 64 at once.
//
// Lock order: no other lock of rdmad is taken while Session.mu is held.
package forward
