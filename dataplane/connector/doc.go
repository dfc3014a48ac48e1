// Package connector is the way from TCP to RDMA: it accepts ONC RPC on TCP
// (RFC 5531 §11) and makes the calls over RPC-over-RDMA (RFC 8166) at a
// target. Each TCP client has an RDMA connection of its own, so that NFS
// version 4 sessions and back channels bind to it, and it ends with it: when
// either side goes, the other is disconnected, and the client's own recovery
// runs.
//
// Calls keep their XID, credential and verifier, replies come back as the
// target made them. What of a call and its reply moves by RDMA Read and Write
// is what the upper-layer binding of its program says (package ulb). Arguments
// go from the socket into registered memory, results from there to the socket.
// Calls of the target (RFC 8167) go to the TCP client as calls.
//
// Nothing that a client or a target does makes a connector hold more than its
// limits: connections, calls in flight and memory of each and of all, bytes of a
// record, how far it is behind rpctcp.Floor with a record or with replies, and time
// without a call. A client over a limit is not read from, or loses its connection
// with one log line; the others are served on.
//
// A caller's duties: New, Start, then Shutdown, which returns when nothing of
// the connector runs any more, before the provider is closed.
package connector
