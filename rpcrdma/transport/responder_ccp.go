package transport

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/ccp"
)

// Errors that answer calls of the Connection Configuration Protocol.
var (
	errNoCCP        = &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	errCCPVersion   = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: ccp.Version, High: ccp.Version}
	errCCPProcedure = &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	errCCPArgs      = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
)

// configuration serves the Connection Configuration Protocol (RFC 5666 §6) on a responder's
// own connection.
type configuration Responder

// handlerFor returns the handler of a program. The configuration program never goes to the
// service, because it concerns the connection.
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
	defer r.mu.releaseAndPost()
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
	// All posted receives have this size, also while larger ones replace them.
	told := ccp.Reply{MaxCall: r.core.ReceiveSize(), Align: align, MaxReads: r.reads}
	reply.Stream = told.Append(reply.Stream)
	return nil
}
