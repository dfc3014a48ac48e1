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

// draining is how long a drain may take with everything around it. Deadlines
// that can't be are rdmad's to refuse.
func (a *app) draining(d time.Duration) time.Duration {
	return cmp.Or(max(d, 0), defaultDeadline) + a.timeout
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
		return a.drainConnection(cmd.Context(), &rdmadv1.DrainConnectionRequest{Id: args[0], Deadline: deadline(cmd, *wait)}, *wait)
	}
	return cmd
}

func (a *app) drainConnection(ctx context.Context, req *rdmadv1.DrainConnectionRequest, wait time.Duration) error {
	var res *rdmadv1.DrainConnectionResponse
	tell := func(ctx context.Context, conn *grpc.ClientConn) string {
		return connectionDrains(ctx, conn, req.GetId())
	}
	err := a.callFor(ctx, a.draining(wait), tell, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		res, err = newAPI(conn).DrainConnection(ctx, req)
		return err
	})
	if err != nil {
		return goesOn(ctx, err, "rdmad still finishes the drain of the connection")
	}
	return a.said(res, "connection %s is drained%s", req.GetId(), either(res.GetCut(), " and was cut with calls in flight", ""))
}

func connectionDrains(ctx context.Context, conn *grpc.ClientConn, id string) string {
	res, err := newAPI(conn).GetConnection(ctx, &rdmadv1.GetConnectionRequest{Id: id})
	if err != nil {
		return ""
	}
	return fmt.Sprintf("draining connection %s, %d calls in progress", id, res.GetConnection().GetCallsInProgress())
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

// goesOn adds to an interruption what it doesn't stop.
func goesOn(ctx context.Context, err error, what string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: %s", what)
	}
	return err
}
