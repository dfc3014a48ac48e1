package oncrpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Serve lets h answer call. Afterwards reply.Stream, whose storage is reused, always holds
// a whole RPC reply. The error is why the reply is unsuccessful. The reply already reports
// it, and its items are released. A panic of the handler is logged with its stack and
// answered with SYSTEM_ERR. A success with unclaimed items of the call is answered with
// GARBAGE_ARGS.
func Serve(ctx context.Context, h Handler, call *Call, reply *Reply) error {
	reply.Stream, reply.Upstream = AppendAcceptedReply(reply.Stream[:0], call.XID), 0
	err := invoke(ctx, h, call, reply)
	if err != nil {
		reply.Release()
		reply.Stream = AppendError(reply.Stream[:0], call.XID, err)
	}
	return err
}

// PanicError is a panic of a handler.
type PanicError struct {
	Value any // what recover returned
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("oncrpc: handler panicked: %v", e.Value)
}

// invoke calls the handler and turns a panic into an error.
func invoke(ctx context.Context, h Handler, call *Call, reply *Reply) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
			logPanic(ctx, call, err)
		}
	}()
	if err := h.ServeRPC(ctx, call, reply); err != nil {
		return err
	}
	if !call.Args.Claimed() {
		return errGarbageArgs
	}
	return nil
}

func logPanic(ctx context.Context, call *Call, err error) {
	slog.LogAttrs(ctx, slog.LevelError, "RPC handler panicked",
		slog.String("peer", call.Peer.String()),
		slog.Uint64("program", uint64(call.Program)),
		slog.Uint64("version", uint64(call.Version)),
		slog.Uint64("procedure", uint64(call.Procedure)),
		slog.Any("error", err),
		slog.String("stack", string(debug.Stack())))
}
