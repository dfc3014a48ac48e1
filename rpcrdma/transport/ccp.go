package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/ccp"
)

// Answers to calls of the Connection Configuration Protocol, made once.
var (
	errNoCCP        = &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	errCCPVersion   = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: ccp.Version, High: ccp.Version}
	errCCPProcedure = &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	errCCPArgs      = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
)

// configuration serves the Connection Configuration Protocol on a responder's
// own connection (RFC 5666 §6), in place of its service.
type configuration Responder

// handlerFor is who serves a program. The configuration program is never the
// service's: it is about the connection.
func (r *Responder) handlerFor(program uint32) oncrpc.Handler {
	if program == ccp.Program {
		return (*configuration)(r)
	}
	return r.handler
}

// ServeRPC implements oncrpc.Handler.
func (c *configuration) ServeRPC(_ context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	r := (*Responder)(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	on, align := r.core.Offers()
	switch {
	case !on:
		return errNoCCP
	case call.Version != ccp.Version:
		return errCCPVersion
	case call.Procedure == ccp.ProcNull:
		return nil
	case call.Procedure != ccp.ProcConfig:
		return errCCPProcedure
	}
	var args ccp.Args
	if len(call.Args.Items) > 0 || args.Decode(call.Args.Stream) != nil {
		return errCCPArgs
	}
	r.core.Configured(args.MaxReply, args.MaxReads)
	r.configureCalls(args.MaxCall)
	r.sq.limitReads(args.MaxReads)
	// What is posted holds this much, and nothing that is posted later less.
	told := ccp.Reply{MaxCall: uint32(r.rq.size), Align: align, MaxReads: r.reads}
	reply.Stream = told.Append(reply.Stream)
	return nil
}

// ccpTimeout bounds the call by which a connection is configured.
const ccpTimeout = 10 * time.Second

// Configure asks the peer how it wants the connection (RFC 5666 §6), before
// any other call, and goes by the answer. A peer that does not know the
// protocol is left as it is. most bounds the Sends that the answer may allow;
// reads is the number of RDMA Reads that may be active at our side.
func (r *Requester) Configure(ctx context.Context, most, reads uint32) error {
	ctx, cancel := context.WithTimeout(ctx, ccpTimeout)
	defer cancel()
	args := ccp.Args{MaxCall: r.sendMax(), MaxReply: uint32(r.rq.size), MaxReads: reads}
	call := RPC{Program: ccp.Program, Version: ccp.Version, Procedure: ccp.ProcConfig, Args: args.Append(nil), MaxReply: ccp.Size}
	switch err := r.Call(ctx, &call); {
	case err == nil:
	case declined(err):
		return nil
	default:
		return fmt.Errorf("transport: configure the connection: %w", err)
	}
	var told ccp.Reply
	if told.Decode(call.Reply) != nil {
		return nil // whatever the peer speaks, it isn't this
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Configured(told.MaxCall, told.Align, told.MaxReads, most)
	r.tellCallee()
	r.sq.limitReads(told.MaxReads)
	return nil
}

// sendMax is the largest Send that our settings allow.
func (r *Requester) sendMax() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.SendMax()
}

// declined says that a peer answered, but not as one that knows the protocol.
func declined(err error) bool {
	var accept *oncrpc.AcceptError
	var denied *oncrpc.DeniedError
	var peer *conn.PeerError
	return errors.As(err, &accept) || errors.As(err, &denied) || errors.As(err, &peer) || errors.Is(err, conn.ErrBadReply)
}
