package cli

import (
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
	req := &rdmadv1.ListConnectionsRequest{}
	a.listenerFlag(cmd, &req.Listener)
	peerFlag(cmd, &req.Peer)
	fields := cmd.Flags().StringSlice("fields", nil, "only these fields: names in JSON, separated by commas")
	must(cmd.RegisterFlagCompletionFunc("fields", completeFields))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFields(*fields); err != nil {
			return err
		}
		if len(*fields) == 0 {
			return showList(cmd.Context(), a, api.ListConnections, req, 0, connectionsTable)
		}
		req.ReadMask = &fieldmaskpb.FieldMask{Paths: *fields}
		all, err := askPages(cmd.Context(), a, api.ListConnections, req, 0)
		if err != nil {
			return err
		}
		return a.printer().AnswerFields(all, "connections", *fields, func() *output.Table { return fieldsTable(all.GetConnections(), *fields) })
	}
	return cmd
}

// listenerFlag adds --listener.
func (a *app) listenerFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "listener", "", "only connections of this listener")
	must(cmd.RegisterFlagCompletionFunc("listener", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.withConnectors(""), noFiles
	}))
}

func connectionsTable(res *rdmadv1.ListConnectionsResponse) *output.Table {
	return output.Things(res.GetConnections(), []output.Field[*rdmadv1.Connection]{
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
