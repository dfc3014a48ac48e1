// Package ulb is upper-layer bindings (RFC 8166 §6, RFC 8267): which arguments
// and results of a program may be moved by RDMA Read and Write apart from
// their message ("DDP-eligible"), and how large a reply may become. Bindings
// are tables, see Binding; a Plan applies them to one call and its reply.
//
// A Plan works on messages that are whole (Call, Reply, Find) and on messages
// that arrive in pieces (StartCall, StartReply, Walk). Walk stops in front of
// each DDP-eligible item: its bytes can go from a socket straight into
// registered memory.
//
// Nothing is guessed: for a program, version or procedure without a binding,
// and for bodies that RPCSEC_GSS protects, nothing is DDP-eligible. When a
// message can't be walked to its end, what was found before stays true.
//
// A caller's duties:
//
//   - a Registry and its Bindings are read only once in use; a Plan and
//     Callbacks belong to one goroutine at a time;
//   - keep a Plan from the call to its reply, then use it for another call: it
//     allocates only while its lists grow;
//   - on an error, move nothing more of that message apart: forward the rest as
//     it is, or refuse the message;
//   - take a MaxReply of Unknown as the largest reply that it would accept.
//
// The package has no sockets, locks or clock.
package ulb
