package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/bench"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newClients(a *app) *cobra.Command {
	var limit uint32
	cmd := &cobra.Command{
		Use:   "clients",
		Short: "Show what each client did, the busiest first",
		Long: `Show what each client, an address, did over all its connections, over RDMA and
TCP, since rdmad first saw it. The clients with the most calls come first. The
last line has all others together. MEAN is the mean time of a call in the service,
or at the target of a connector.`,
		Example: "  rdmactl clients\n  rdmactl clients --limit 0 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, rdmadv1.NewConnectionServiceClient, rdmadv1.ConnectionServiceClient.ListClients, &rdmadv1.ListClientsRequest{Limit: limit}, clientsTable)
		},
	}
	cmd.Flags().Uint32Var(&limit, "limit", 20, "most clients to list one by one; 0 for all")
	return cmd
}

func clientsTable(res *rdmadv1.ListClientsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "CLIENT"},
		{Name: "CONNECTIONS", Right: true},
		{Name: "CALLS", Right: true},
		{Name: "ERRORS", Right: true, Drop: 2},
		{Name: "RECEIVED", Right: true},
		{Name: "SENT", Right: true},
		{Name: "MEAN", Right: true, Drop: 3},
		{Name: "SINCE", Drop: 1},
	}}
	add := func(name string, c *rdmadv1.Client) {
		t.Cells(texts(name, fmt.Sprint(c.GetConnections()), count(c.GetCalls()), count(c.GetErrors()),
			count(c.GetBytesReceived()), count(c.GetBytesSent()), mean(c), clock(c.GetSince()))...)
	}
	for _, c := range res.GetClients() {
		add(c.GetAddress(), c)
	}
	if o := res.GetOthers(); res.GetOthersCount() > 0 || o.GetCalls() > 0 || o.GetConnections() > 0 {
		add("others", o)
	}
	return t
}

// mean is the mean time of a client's calls; empty without calls.
func mean(c *rdmadv1.Client) string {
	if c.GetCalls() == 0 {
		return ""
	}
	return micros(bench.Micros(c.GetServiceTime().AsDuration()) / c.GetCalls())
}
