// Package oncrpc implements ONC RPC version 2 (RFC 5531) between a transport and its
// services: call and reply headers, AUTH_SYS credentials, record marking for byte streams,
// and the Handler interface with its dispatch.
//
// A transport must:
//
//   - decode a message with DecodeCall. Answer a *DeniedError with AppendError. For
//     ErrMalformed, drop the message or its connection, because nobody can be answered;
//   - run Serve in its own goroutine for each call, send what it leaves in the Reply, and
//     then Release the reply's items;
//   - keep the memory that a Call refers to until Serve returns.
package oncrpc
