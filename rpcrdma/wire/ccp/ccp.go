// Package ccp encodes and decodes the Connection Configuration Protocol (RFC 5666 §6), ONC
// RPC program 100417. With it a client announces to a server what its end of a connection
// accepts, and learns what the server accepts. The protocol runs on the connection that it
// configures.
//
// The caller must:
//
//   - as a client, call only Config, before anything else on the connection, and accept that
//     servers may not know the program;
//   - post receives of the announced sizes before announcing them, and expect any 32-bit
//     values from the peer.
package ccp

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// The program (RFC 5666 §12), its version and its procedures.
const (
	Program = 100417
	Version = 1

	ProcNull   = 0
	ProcConfig = 1 // Args -> Reply
)

// Size is the encoded size of Args and of Reply, in bytes.
const Size = 3 * xdr.Unit

// ErrMalformed means that the message does not have exactly Size bytes.
var ErrMalformed = errors.New("ccp: malformed message")

// Args is what a client announces (config_rdma_req). Sizes are those of whole Sends, in
// bytes.
type Args struct {
	MaxCall  uint32 // maxcall_sendsize: the largest Send that it may make
	MaxReply uint32 // maxreply_sendsize: the largest Send that it takes
	MaxReads uint32 // maxrdmaread: RDMA Reads that may be active at it
}

// Append appends the encoded arguments.
func (a *Args) Append(dst []byte) []byte {
	return xdr.AppendUint32s(dst, a.MaxCall, a.MaxReply, a.MaxReads)
}

// Decode decodes arguments. They must be all of b.
func (a *Args) Decode(b []byte) error { return decodeWords(b, &a.MaxCall, &a.MaxReply, &a.MaxReads) }

// Reply is what a server announces (config_rdma_reply).
type Reply struct {
	MaxCall  uint32 // maxcall_sendsize: the largest Send that it takes, in bytes
	Align    uint32 // of opaque data in its receive buffers, in bytes
	MaxReads uint32 // maxrdmaread: RDMA Reads that may be active at it
}

// Append appends the encoded reply.
func (r *Reply) Append(dst []byte) []byte {
	return xdr.AppendUint32s(dst, r.MaxCall, r.Align, r.MaxReads)
}

// Decode decodes a reply. It must be all of b.
func (r *Reply) Decode(b []byte) error { return decodeWords(b, &r.MaxCall, &r.Align, &r.MaxReads) }

func decodeWords(b []byte, words ...*uint32) error {
	if len(b) != Size {
		return ErrMalformed
	}
	d := xdr.NewDecoder(b)
	for _, w := range words {
		*w = d.Uint32()
	}
	return d.Err()
}
