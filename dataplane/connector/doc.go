// Package connector carries calls from TCP to RDMA: it accepts ONC RPC on TCP (RFC 5531 §11)
// and makes the calls over RPC-over-RDMA (RFC 8166) at a target. Each TCP client has its own
// RDMA connection, because NFS version 4 sessions and back channels bind to it. When either
// side disconnects, the other side is disconnected too, and the client recovers by itself.
//
// Calls keep their XID, credential and verifier, and replies come back as the target made
// them. The upper-layer binding of the program (package ulb) decides which parts of a call
// and its reply move by RDMA Read and Write. Arguments go from the socket directly into
// registered memory, and results from there to the socket. Calls of the target (RFC 8167)
// become calls to the TCP client.
//
// No client or target can make a connector exceed its limits: connections, calls in flight
// and memory, of each client and of all together; bytes of a record; how far a client may
// fall behind rpctcp.Floor with a record or with replies; and time without a call. A client
// over a limit is not read from, or loses its connection with one log line. Other clients
// are not affected.
//
// A caller's duties: Prepare, Enter, Start, then Shutdown before the provider is closed. When Shutdown
// returns, nothing of the connector runs any more.
package connector
