// Package rpcrdma2 encodes and decodes the transport headers of RPC-over-RDMA
// version 2 (draft-cel-nfsv4-rpcrdma-version-two-01) and the bodies of its
// optional operations: transport characteristics (opttypes 1 to 4), message
// continuation and send-based DDP (draft-dnoveck-nfsv4-rpcrdma-rtrext-00,
// opttypes 5 to 8). The XDR is in x/, put together where the texts have gaps;
// what goxdr makes of it is the codec's oracle in tests.
//
// A caller's duties:
//
//   - tell Decode's errors apart: rpcrdma1.ErrShort drops the message,
//     rpcrdma1.ErrVersion is answered with ERR_VERS, anything else
//     (ErrMalformed) with BAD_HEADER;
//   - look up who handles an Optional header's Option, and decode its Info with
//     that operation's Body; one that nobody handles is answered with
//     INVAL_OPTION;
//   - check what a header or a body means: the codec checks that it is the XDR
//     that it should be, and bounds each list;
//   - own each Header and Body alone: decoding reuses the storage of its slices.
//     Info, and a Characteristic's Data, are the message's bytes and end with
//     them; all else that was decoded refers to nothing in the message.
package rpcrdma2
