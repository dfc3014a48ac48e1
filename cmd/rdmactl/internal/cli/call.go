package cli

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

// ask makes one request, and gives the answer.
func ask[Q, R any](ctx context.Context, a *app, method unary[Q, R], req Q) (res R, err error) {
	err = a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err = method(newAPI(conn), ctx, req)
		return err
	})
	return res, err
}

// show makes one request and prints the answer, with a table of it.
func show[Q any, R proto.Message](ctx context.Context, a *app, method unary[Q, R], req Q, table func(R) *output.Table) error {
	res, err := ask(ctx, a, method, req)
	if err != nil {
		return err
	}
	return a.printer().Answer(res, func() *output.Table { return table(res) })
}

// call runs requests within the timeout. Nothing may be printed meanwhile.
func (a *app) call(ctx context.Context, f func(context.Context, *grpc.ClientConn) error) error {
	return a.callFor(ctx, a.timeout, nil, f)
}

// callFor runs requests within a time. If they take longer than a second, a
// terminal shows tell's text, or that an answer is awaited.
func (a *app) callFor(ctx context.Context, most time.Duration, tell teller, f func(context.Context, *grpc.ClientConn) error) error {
	a.allowed = most
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer a.waiting(ctx, conn, tell)()
	return f(ctx, conn)
}

// teller asks rdmad how far something is; "" when there is nothing to say.
type teller func(context.Context, *grpc.ClientConn) string

// waiting shows a line on a terminal until the function that it returns is
// called.
func (a *app) waiting(ctx context.Context, conn *grpc.ClientConn, tell teller) (end func()) {
	progress := output.NewProgress(a.stderr)
	if !progress.Shown() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer progress.End()
		began, ticks := time.Now(), time.NewTicker(a.silent)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticks.C:
				text := ""
				if tell != nil {
					text = tell(ctx, conn)
				}
				if text == "" {
					text = "waiting for rdmad at " + a.addr
				}
				progress.Text(fmt.Sprintf("%s, %s", text, now.Sub(began).Round(time.Second)))
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// follow shows a stream's messages until it is interrupted, which is how it is meant
// to end. It continues after a restart of rdmad.
func follow[Q, E any](ctx context.Context, a *app, method streaming[Q, E], req Q, show func(*E) error) error {
	err := a.keep(ctx, func(conn *grpc.ClientConn, begun func()) error { return receive(ctx, conn, method, req, begun, show) })
	if ended(ctx, err) {
		return nil
	}
	return err
}

// receive shows the messages of one stream. It calls begun when rdmad answers.
func receive[Q, E any](ctx context.Context, conn *grpc.ClientConn, method streaming[Q, E], req Q, begun func(), show func(*E) error) error {
	stream, err := method(newAPI(conn), ctx, req)
	if err == nil {
		// An rdmad that can't answer ends the stream without a header.
		if header, err := stream.Header(); err == nil && header != nil {
			begun()
		}
	}
	for err == nil {
		var e *E
		if e, err = stream.Recv(); err == nil {
			err = show(e)
		}
	}
	return err
}

// watchLines is follow for messages that are a line each.
func watchLines[Q, E any, M interface {
	*E
	proto.Message
}](ctx context.Context, a *app, method streaming[Q, E], req Q, line func(M) []output.Cell) error {
	p := a.printer()
	return follow(ctx, a, method, req, func(e *E) error {
		return p.Event(M(e), func() []output.Cell { return line(e) })
	})
}
