package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectors(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "connectors", Short: "Connect TCP clients to RPC-over-RDMA servers"},
		newConnectorsList(a), newConnectorsAdd(a), newConnectorsUpdate(a), newConnectorsUnset(a), newConnectorsRemove(a))
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
			return showList(cmd.Context(), a, rdmadv1.NewConnectorServiceClient, rdmadv1.ConnectorServiceClient.ListConnectors, &rdmadv1.ListConnectorsRequest{}, 0,
				func(res *rdmadv1.ListConnectorsResponse) *output.Table { return connectorsTable(res.GetConnectors()) })
		},
	}
}

func connectorsTable(all []*rdmadv1.Connector) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME", Min: 8},
		{Name: "ADDRESS"},
		{Name: "TARGET"},
		{Name: "PROVIDER", Drop: 4},
		{Name: "STATE"},
		{Name: "FROM", Drop: 6},
		{Name: "CONNECTIONS", Right: true},
		{Name: "ACCEPTED", Right: true, Drop: 2},
		{Name: "REFUSED", Right: true, Drop: 2},
		{Name: "CALLS", Right: true},
		{Name: "FAILED", Right: true, Drop: 1},
		{Name: "REVERSE", Right: true, Drop: 3},
		{Name: "SINCE", Drop: 5},
	}}
	for _, c := range all {
		cells := texts(c.GetName(), c.GetAddress(), c.GetTarget(), c.GetProvider(), word(c.GetState().String()), from(c),
			fmt.Sprint(c.GetConnections()), count(c.GetAccepted()), count(c.GetRefused()), count(c.GetCalls()),
			count(c.GetFailed()), count(c.GetReverseCalls()), clock(c.GetSince()))
		switch c.GetState() {
		case rdmadv1.Connector_DRAINING:
			cells[4].Colour = output.Yellow
		case rdmadv1.Connector_FAILED:
			cells[4].Colour = output.Red
		}
		t.Cells(cells...)
	}
	return t
}
