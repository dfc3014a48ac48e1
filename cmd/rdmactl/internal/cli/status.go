package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "status",
		Short:             "How the daemon is",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				res, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{})
				if err != nil {
					return err
				}
				return a.printer().Answer(res, func() *output.Table { return statusTable(res) })
			})
		},
	}
}

func statusTable(s *rdmadv1.GetStatusResponse) *output.Table {
	t := &output.Table{Columns: make([]output.Column, 2)}
	t.Row("version", s.GetVersion())
	t.Row("started", clock(s.GetStarted()))
	t.Row("uptime", (time.Duration(s.GetUptimeSeconds()) * time.Second).String())
	t.Row("settings revision", fmt.Sprint(s.GetRevision()))
	t.Row("listeners", fmt.Sprint(s.GetListeners()))
	t.Row("connections", fmt.Sprint(s.GetConnections()))
	t.Row("calls", count(s.GetCalls()))
	errors := output.Cell{Text: count(s.GetErrors())}
	if s.GetErrors() > 0 {
		errors.Colour = output.Red
	}
	t.Cells(output.Cell{Text: "errors"}, errors)
	return t
}

// count writes a counter.
func count(n float64) string { return fmt.Sprintf("%.0f", n) }

// clock writes a time in local time, "" when there is none.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.DateTime)
}
