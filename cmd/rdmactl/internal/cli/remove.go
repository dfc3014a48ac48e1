package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// removal is how something that accepts connections is removed: it stops
// accepting, and what it has is drained.
type removal struct {
	what, whose string // as in "listener" and "connections"
	cmd         cobra.Command
	// left is how many are not drained yet, if it is known.
	left func(ctx context.Context, conn *grpc.ClientConn, name string) (n uint64, known bool)
}

// removed is the answer to a removal.
type removed interface {
	proto.Message
	GetDrained() uint32
	GetCut() uint32
}

// newRemoval makes the command that removes something, by a method whose request has its name
// and the deadline.
func newRemoval[Q proto.Message, R removed](a *app, method unary[Q, R], req Q, r *removal) *cobra.Command {
	cmd := &r.cmd
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		setName(cmd, req, name, *wait)
		tell := func(ctx context.Context, conn *grpc.ClientConn) string {
			n, known := r.left(ctx, conn, name)
			if !known {
				return ""
			}
			return fmt.Sprintf("draining %s %s, %d %s left", r.what, name, n, r.whose)
		}
		res, err := drain(cmd.Context(), a, method, req, *wait, tell, fmt.Sprintf("drains the %s's %s", r.what, r.whose))
		if err != nil {
			return err
		}
		return a.said(res, "%s %s is removed: %d %s drained, %d cut with calls in flight", r.what, name, res.GetDrained(), r.whose, res.GetCut())
	}
	return cmd
}

// left is how many connections the one of that name has, if it is there.
func left[T interface {
	GetName() string
	GetConnections() N
}, N uint32 | uint64](all []T, name string) (n uint64, known bool) {
	for _, one := range all {
		if one.GetName() == name {
			return uint64(one.GetConnections()), true
		}
	}
	return 0, false
}
