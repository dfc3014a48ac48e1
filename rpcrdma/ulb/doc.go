// Package ulb implements upper-layer bindings (RFC 8166 §6, RFC 8267): which arguments and
// results of a program RDMA Read and Write may move separately from their message
// ("DDP-eligible"), and how large a reply may become. Bindings are tables, see Binding. A
// Plan applies them to one call and its reply.
//
// A Plan works on whole messages (Call, Reply, Find) and on messages that arrive in pieces
// (StartCall, StartReply, Walk). Walk stops before each DDP-eligible item, so that the
// item's bytes can go from a socket directly into registered memory.
//
// Nothing is guessed. For a program, version or procedure without a binding, and for bodies
// that RPCSEC_GSS protects, nothing is DDP-eligible. If a message cannot be walked to its
// end, what was found before the error stays valid.
//
// The caller must:
//
//   - not change a Registry and its Bindings once they are in use. A Plan belongs to
//     one goroutine at a time;
//   - keep a Plan from the call to its reply. Then it may be reused for another call. It
//     allocates only while its lists grow;
//   - on an error, move no more items of that message separately: forward the rest unchanged,
//     or refuse the message;
//   - treat a MaxReply of Unknown as the largest reply that it would accept.
//
// The package uses no sockets, locks or clock.
package ulb
