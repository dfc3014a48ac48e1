package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// defaultDeadline is how long rdmad lets calls in flight take if a request has
// no deadline.
const defaultDeadline = 30 * time.Second

// deadlineFlag adds --deadline.
func deadlineFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("deadline", 0, "disconnect after this time, with calls in flight (default 30s)")
}

// deadline is the deadline of a request; nil for rdmad's default.
func deadline(cmd *cobra.Command, d time.Duration) *durationpb.Duration {
	if !cmd.Flags().Changed("deadline") {
		return nil
	}
	return durationpb.New(d)
}

// drain makes a request that rdmad answers when calls in flight have ended. It waits for the deadline of the calls, and
// --timeout longer. rdmad refuses an invalid deadline. After an interruption rdmad continues; goesOn says what it does.
func drain[Q, R any](ctx context.Context, a *app, method unary[Q, R], req Q, wait time.Duration, tell teller, goesOn string) (res R, err error) {
	err = a.callFor(ctx, cmp.Or(max(wait, 0), defaultDeadline)+a.timeout, tell, func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err = method(newAPI(conn), ctx, req)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted: rdmad still %s", goesOn)
	}
	return res, err
}

func newConnectionsDrain(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain ID",
		Short: "End a connection after its calls are finished",
		Long: `Finish the calls in flight of a connection, drop new ones, and disconnect it. The
peer makes the dropped calls again on its next connection. Settings that were
PENDING_RECONNECT are in force there. The command returns when the connection is
down. If you interrupt it, rdmad still finishes the drain.`,
		Example:           "  rdmactl connections drain 3 --deadline 10s",
		ValidArgsFunction: a.completeConnection,
	}
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tell := func(ctx context.Context, conn *grpc.ClientConn) string {
			res, err := newAPI(conn).GetConnection(ctx, &rdmadv1.GetConnectionRequest{Id: args[0]})
			if err != nil {
				return ""
			}
			return fmt.Sprintf("draining connection %s, %d calls in progress", args[0], res.GetConnection().GetCallsInProgress())
		}
		req := &rdmadv1.DrainConnectionRequest{Id: args[0], Deadline: deadline(cmd, *wait)}
		res, err := drain(cmd.Context(), a, api.DrainConnection, req, *wait, tell, "finishes the drain of the connection")
		if err != nil {
			return err
		}
		return a.said(res, "connection %s is drained%s", args[0], either(res.GetCut(), " and was cut with calls in flight", ""))
	}
	return cmd
}

func newConnectionsClose(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "close ID",
		Short: "End a connection at once",
		Long: `Disconnect at once. The peer gets no answers to its calls in flight, and makes
them again. connections drain waits for them.`,
		Example:           "  rdmactl connections close 3",
		ValidArgsFunction: a.completeConnection,
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := ask(cmd.Context(), a, api.CloseConnection, &rdmadv1.CloseConnectionRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return a.said(res, "connection %s is closed", args[0])
		},
	}
}
