package oncrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// ErrLater is what ServeRPC returns when the call is answered by Later.Answer instead.
var ErrLater = errors.New("oncrpc: answered later")

// errNotLater answers a handler that returns ErrLater where Call.Later is nil.
var errNotLater = errors.New("oncrpc: the transport takes no later answers")

// errImpossible answers a handler that made a reply that cannot be sent.
var errImpossible = errors.New("oncrpc: impossible reply")

// Serve lets h answer call. Afterwards reply.Stream, whose storage is reused, always holds
// a whole RPC reply. The error is why the reply is unsuccessful. The reply already reports
// it, and its items are released. A panic of the handler is logged with its stack and
// answered with SYSTEM_ERR. A success with unclaimed items of the call is answered with
// GARBAGE_ARGS. A success whose Stream does not begin as a reply to the call, or whose items
// are misplaced, is a mistake of the handler. It is logged and answered with SYSTEM_ERR.
//
// If the error is ErrLater, the transport must end the call with Answer when Later.Answer is
// called. That may have happened already, so the caller must not use call and reply.
func Serve(ctx context.Context, h Handler, call *Call, reply *Reply) error {
	reply.Stream, reply.Upstream, reply.watches = AppendAcceptedReply(reply.Stream[:0], call.XID), 0, reply.watches[:0]
	later := call.Later != nil
	err := invoke(ctx, h, call, reply)
	if errors.Is(err, ErrLater) {
		if later {
			return ErrLater
		}
		err = errNotLater
	}
	return Answer(ctx, call, reply, err)
}

// Answer ends a call whose handler has returned err, or answers it later with err. It
// completes the reply and calls the watchers. It returns what Serve returns.
func Answer(ctx context.Context, call *Call, reply *Reply, err error) error {
	if err == nil {
		err = faultOf(ctx, call, reply)
	}
	if len(reply.watches) > 0 {
		ended := time.Now()
		for i, w := range slices.Backward(reply.watches) {
			w.watcher.Served(ctx, call, reply, w.began, ended, err)
			reply.watches[i] = watch{}
		}
	}
	if err != nil {
		reply.Release()
		reply.Stream = AppendError(reply.Stream[:0], call.XID, err)
	}
	return err
}

// faultOf returns why a success cannot be sent, or nil.
func faultOf(ctx context.Context, call *Call, reply *Reply) error {
	if !call.Args.Claimed() {
		return errGarbageArgs
	}
	xid, mtype, ok := MessageType(reply.Stream)
	if ok && mtype == MsgReply && xid == call.XID && Misplaced(reply.Items, len(reply.Stream)) < 0 {
		return nil
	}
	slog.LogAttrs(ctx, slog.LevelError, "RPC handler made an impossible reply", callAttrs(call)...)
	return errImpossible
}

// Watcher sees the end of calls.
type Watcher interface {
	// Served is called once when the service of a call has ended, with its times. If err is
	// not nil, it is the answer in place of reply. The method must not wait.
	Served(ctx context.Context, call *Call, reply *Reply, began, ended time.Time, err error)
}

// watch is a Watcher of a call.
type watch struct {
	watcher Watcher
	began   time.Time
}

// Watch makes w see the end of the call that r answers. A handler that passes calls on to
// another one uses it instead of waiting for that one to return, because the answer may come
// later.
func (r *Reply) Watch(w Watcher) { r.watches = append(r.watches, watch{w, time.Now()}) }

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
	return h.ServeRPC(ctx, call, reply)
}

func logPanic(ctx context.Context, call *Call, err error) {
	slog.LogAttrs(ctx, slog.LevelError, "RPC handler panicked",
		append(callAttrs(call), slog.Any("error", err), slog.String("stack", string(debug.Stack())))...)
}

func callAttrs(call *Call) []slog.Attr {
	return []slog.Attr{
		slog.String("peer", call.Peer.String()),
		slog.Uint64("program", uint64(call.Program)),
		slog.Uint64("version", uint64(call.Version)),
		slog.Uint64("procedure", uint64(call.Procedure)),
	}
}
