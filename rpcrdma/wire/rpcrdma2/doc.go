// Package rpcrdma2 encodes and decodes the transport headers of RPC-over-RDMA
// version 2 (draft-cel-nfsv4-rpcrdma-version-two-01) and the bodies of its
// optional operations: transport characteristics (opttypes 1 to 4), message
// continuation and send-based DDP (draft-dnoveck-nfsv4-rpcrdma-rtrext-00,
// opttypes 5 to 8). The XDR is in x/, completed where the texts have gaps. Tests
// compare the codec with the code that goxdr generates from it.
//
// A caller must:
//
//   - handle Decode's errors separately: drop the message for rpcrdma1.ErrShort,
//     answer ERR_VERS for rpcrdma1.ErrVersion, and BAD_HEADER for all others
//     (ErrMalformed);
//   - choose the operation by an Optional header's Option, decode Info with that
//     operation's Body, and answer INVAL_OPTION for an operation that it does
//     not handle;
//   - check the meaning of a header or a body: the codec checks only that it
//     follows the XDR, and bounds each list;
//   - not share a Header or a Body. Decoding reuses the storage of its slices.
//     Info, and a Characteristic's Data, alias the message. Nothing else that
//     was decoded refers to it.
package rpcrdma2
