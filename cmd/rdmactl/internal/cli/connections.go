package cli

import (
	"context"

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
	all, err := askPages(ctx, a, api.ListConnections, req, 0)
	if err != nil {
		return err
	}
	if fields := req.GetReadMask().GetPaths(); len(fields) > 0 {
		return a.printer().AnswerFields(all, "connections", fields, func() *output.Table { return fieldsTable(all.GetConnections(), fields) })
	}
	return a.printer().Answer(all, func() *output.Table { return connectionsTable(all.GetConnections()) })
}

func connectionsTable(all []*rdmadv1.Connection) *output.Table {
	return output.Things(all, []output.Field[*rdmadv1.Connection]{
		{Name: "ID", Right: true, Text: (*rdmadv1.Connection).GetId},
		{Name: "LISTENER", Min: 8, Text: (*rdmadv1.Connection).GetListener},
		{Name: "PEER", Text: (*rdmadv1.Connection).GetPeer},
		{Name: "PROVIDER", Drop: 8, Text: (*rdmadv1.Connection).GetProvider},
		{Name: "VERS", Drop: 7, Number: (*rdmadv1.Connection).GetRpcVersion},
		{Name: "INLINE-SEND", Drop: 1, Number: (*rdmadv1.Connection).GetInlineSend},
		{Name: "INLINE-RECV", Drop: 6, Number: (*rdmadv1.Connection).GetInlineReceive},
		{Name: "CREDITS", Number: (*rdmadv1.Connection).GetCreditsGranted},
		{Name: "REM-INV", Drop: 5, Text: func(c *rdmadv1.Connection) string { return onOff(c.GetRemoteInvalidation()) }},
		{Name: "CALLS", Count: (*rdmadv1.Connection).GetCalls},
		{Name: "READS", Drop: 3, Count: (*rdmadv1.Connection).GetRdmaReads},
		{Name: "WRITES", Drop: 3, Count: (*rdmadv1.Connection).GetRdmaWrites},
		{Name: "SENDS", Drop: 4, Count: (*rdmadv1.Connection).GetSends},
		{Name: "SEND-INV", Drop: 4, Count: (*rdmadv1.Connection).GetSendsWithInvalidate},
		{Name: "ERRORS", Drop: 2, Count: (*rdmadv1.Connection).GetErrors},
		{Name: "STATE", Text: state},
	})
}

func onOff(b bool) string { return either(b, "on", "off") }

func state(c *rdmadv1.Connection) string { return word(c.GetState().String()) }
