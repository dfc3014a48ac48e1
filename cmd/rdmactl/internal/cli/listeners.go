package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newListeners(a *app) *cobra.Command {
	cmd := group(&cobra.Command{Use: "listeners", Short: "Where rdmad accepts connections"})
	cmd.AddCommand(&cobra.Command{
		Use:               "list",
		Short:             "All listeners",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				res, err := rdmadv1.NewListenerServiceClient(conn).ListListeners(ctx, &rdmadv1.ListListenersRequest{})
				if err != nil {
					return err
				}
				return a.printer().Answer(res, func() *output.Table { return listenersTable(res.GetListeners()) })
			})
		},
	})
	return cmd
}

func listenersTable(all []*rdmadv1.Listener) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME"},
		{Name: "PROVIDER", Drop: 2},
		{Name: "ADDRESS"},
		{Name: "SERVICE"},
		{Name: "CONNECTIONS", Right: true},
		{Name: "ACCEPTED", Right: true, Drop: 1},
		{Name: "REFUSED", Right: true},
		{Name: "SINCE", Drop: 3},
	}}
	for _, l := range all {
		t.Row(l.GetName(), l.GetProvider(), l.GetAddress(), l.GetService(), fmt.Sprint(l.GetConnections()),
			count(l.GetAccepted()), count(l.GetRefused()), clock(l.GetSince()))
	}
	return t
}
