// Package oncrpc is ONC RPC version 2 (RFC 5531) between a transport and the
// services behind it: call and reply headers, AUTH_SYS credentials, record
// marking for byte streams, and the Handler contract with its dispatch.
//
// A transport's duties:
//
//   - take a message apart with DecodeCall; answer a *DeniedError with
//     AppendError, and drop the message or its connection for ErrMalformed,
//     which leaves nobody to answer to;
//   - run Serve in a goroutine of its own for each call and send what it
//     leaves in the Reply, then Release the reply's items;
//   - keep the memory that a Call refers to until Serve returns.
package oncrpc
