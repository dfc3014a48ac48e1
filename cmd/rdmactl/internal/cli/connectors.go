package cli

import (
	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectors(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "connectors", Short: "Connect TCP clients to RPC-over-RDMA servers"},
		newConnectorsList(a), newConnectorsAdd(a), newConnectorsUpdate(a), newUnset("connector", a.completeConnector, &rdmadv1.UpdateConnectorRequest{}, a.updateConnector), newConnectorsRemove(a))
}

func newConnectorsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "All connectors",
		Long: `List all connectors, with the address for TCP clients and the RPC-over-RDMA server.
Their connections are in "rdmactl connections list", their settings in the scope
listener/NAME. JSON and YAML also have access lists, limits, and why a connector
failed.`,
		Example: "  rdmactl connectors list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showList(cmd.Context(), a, api.ListConnectors, &rdmadv1.ListConnectorsRequest{}, 0, connectorsTable)
		},
	}
}

func connectorsTable(res *rdmadv1.ListConnectorsResponse) *output.Table {
	return output.Things(res.GetConnectors(), []output.Field[*rdmadv1.Connector]{
		{Name: "NAME", Min: 8, Text: (*rdmadv1.Connector).GetName},
		{Name: "ADDRESS", Text: (*rdmadv1.Connector).GetAddress},
		{Name: "TARGET", Text: (*rdmadv1.Connector).GetTarget},
		{Name: "PROVIDER", Drop: 4, Text: (*rdmadv1.Connector).GetProvider},
		{Name: "STATE", Cell: func(c *rdmadv1.Connector) output.Cell { return endpointState(c.GetState()) }},
		{Name: "FROM", Drop: 6, Text: from[*rdmadv1.Connector]},
		{Name: "CONNECTIONS", Number: (*rdmadv1.Connector).GetConnections},
		{Name: "ACCEPTED", Drop: 2, Count: (*rdmadv1.Connector).GetAccepted},
		{Name: "REFUSED", Drop: 2, Count: (*rdmadv1.Connector).GetRefused},
		{Name: "CALLS", Count: (*rdmadv1.Connector).GetCalls},
		{Name: "FAILED", Drop: 1, Count: (*rdmadv1.Connector).GetFailed},
		{Name: "REVERSE", Drop: 3, Count: (*rdmadv1.Connector).GetReverseCalls},
		{Name: "SINCE", Drop: 5, Text: since[*rdmadv1.Connector]},
	})
}
