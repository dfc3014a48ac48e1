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

// ccpTimeout is the timeout of the call that configures a connection.
const ccpTimeout = 10 * time.Second

// Configure asks the peer how it wants the connection (RFC 5666 §6), before any other call,
// and applies the answer. It changes nothing for a peer that does not know the protocol.
// most limits the Sends that the answer may allow.
func (r *Requester) Configure(ctx context.Context, args ccp.Args, most uint32) error {
	ctx, cancel := context.WithTimeout(ctx, ccpTimeout)
	defer cancel()
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
		return nil // the answer is of another protocol
	}
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.core.Configured(told.MaxCall, told.Align, told.MaxReads, most)
	r.tellCallee()
	r.sq.limitReads(told.MaxReads)
	return nil
}

// declined reports whether the peer answered as one that does not know the protocol.
func declined(err error) bool {
	var accept *oncrpc.AcceptError
	var denied *oncrpc.DeniedError
	var peer *conn.PeerError
	return errors.As(err, &accept) || errors.As(err, &denied) || errors.As(err, &peer) || errors.Is(err, conn.ErrBadReply)
}
