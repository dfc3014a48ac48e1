// Package rpcrdma1 encodes and decodes the transport headers of RPC-over-RDMA
// version 1 (RFC 5666 §4, RFC 8166 §4): the prefix that all versions share,
// the chunk lists, and all five header types.
//
// A caller's duties:
//
//   - tell Decode's errors apart: ErrShort drops the message, ErrVersion is
//     answered with ERR_VERS, anything else (ErrMalformed) with ERR_CHUNK;
//   - check what a header means: positions, lengths against the message and
//     against each other, and which lists a header type may carry in which
//     direction are not the codec's;
//   - own each Header alone: decoding reuses the storage of its slices, so
//     that what must outlive the next Decode is copied.
package rpcrdma1
