package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnections(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "connections", Short: "Show, drain and close RPC-over-RDMA connections"},
		newConnectionsList(a), newConnectionsShow(a), newConnectionsWatch(a), newConnectionsDrain(a), newConnectionsClose(a))
}

func newConnectionsList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List connections",
		Long: `List all connections, or those of a listener or of some peers. --fields chooses
the columns of the table, and the fields of JSON and YAML. connections show has
all fields of one connection.`,
		Example: `  rdmactl connections list --listener nfs
  rdmactl connections list --peer 192.0.2.0/24 --fields id,peer,calls,calls_in_progress`,
	}
	listener := a.listenerFlag(cmd, "only connections of this listener")
	var peer string
	peerFlag(cmd, &peer)
	fields := cmd.Flags().StringSlice("fields", nil, "only these fields: names in JSON, separated by commas")
	must(cmd.RegisterFlagCompletionFunc("fields", completeFields))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFields(*fields); err != nil {
			return err
		}
		req := &rdmadv1.ListConnectionsRequest{Listener: *listener, Peer: peer}
		if len(*fields) > 0 {
			req.ReadMask = &fieldmaskpb.FieldMask{Paths: *fields}
		}
		return a.listConnections(cmd.Context(), req)
	}
	return cmd
}

// listenerFlag adds --listener.
func (a *app) listenerFlag(cmd *cobra.Command, usage string) *string {
	name := cmd.Flags().String("listener", "", usage)
	must(cmd.RegisterFlagCompletionFunc("listener", a.completeListener))
	return name
}

// listConnections prints all pages as one.
func (a *app) listConnections(ctx context.Context, req *rdmadv1.ListConnectionsRequest) error {
	all, err := askPages(ctx, a, rdmadv1.NewConnectionServiceClient, rdmadv1.ConnectionServiceClient.ListConnections, req, 0)
	if err != nil {
		return err
	}
	if fields := req.GetReadMask().GetPaths(); len(fields) > 0 {
		return a.printer().AnswerFields(all, "connections", fields, func() *output.Table { return fieldsTable(all.GetConnections(), fields) })
	}
	return a.printer().Answer(all, func() *output.Table { return connectionsTable(all.GetConnections()) })
}

func connectionsTable(all []*rdmadv1.Connection) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "ID", Right: true},
		{Name: "LISTENER", Min: 8},
		{Name: "PEER"},
		{Name: "PROVIDER", Drop: 8},
		{Name: "VERS", Right: true, Drop: 7},
		{Name: "INLINE-SEND", Right: true, Drop: 1},
		{Name: "INLINE-RECV", Right: true, Drop: 6},
		{Name: "CREDITS", Right: true},
		{Name: "REM-INV", Drop: 5},
		{Name: "CALLS", Right: true},
		{Name: "READS", Right: true, Drop: 3},
		{Name: "WRITES", Right: true, Drop: 3},
		{Name: "SENDS", Right: true, Drop: 4},
		{Name: "SEND-INV", Right: true, Drop: 4},
		{Name: "ERRORS", Right: true, Drop: 2},
		{Name: "STATE"},
	}}
	for _, c := range all {
		t.Cells(texts(c.GetId(), c.GetListener(), c.GetPeer(), c.GetProvider(), fmt.Sprint(c.GetRpcVersion()),
			fmt.Sprint(c.GetInlineSend()), fmt.Sprint(c.GetInlineReceive()), fmt.Sprint(c.GetCreditsGranted()),
			onOff(c.GetRemoteInvalidation()), count(c.GetCalls()), count(c.GetRdmaReads()), count(c.GetRdmaWrites()),
			count(c.GetSends()), count(c.GetSendsWithInvalidate()), count(c.GetErrors()), state(c))...)
	}
	return t
}

func texts(all ...string) []output.Cell {
	cells := make([]output.Cell, len(all))
	for i, s := range all {
		cells[i].Text = s
	}
	return cells
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func state(c *rdmadv1.Connection) string { return word(c.GetState().String()) }
