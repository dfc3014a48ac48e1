// Package rpcrdma1 encodes and decodes the transport headers of RPC-over-RDMA version 1
// (RFC 5666 §4, RFC 8166 §4): the prefix that all versions share, the chunk lists, and all
// five header types.
//
// The caller must:
//
//   - handle Decode's errors separately: drop the message for ErrShort, answer ERR_VERS for
//     ErrVersion, and ERR_CHUNK for all others (ErrMalformed);
//   - check the meaning of a header: positions, lengths against the message and against each
//     other, and which lists a header type may have in which direction;
//   - not share a Header. Decoding reuses the storage of its slices, so copy what must stay
//     valid after the next Decode.
package rpcrdma1
