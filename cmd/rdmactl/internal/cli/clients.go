package cli

import (
	"cmp"
	"slices"

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
			return show(cmd.Context(), a, api.ListClients, &rdmadv1.ListClientsRequest{Limit: limit}, clientsTable)
		},
	}
	cmd.Flags().Uint32Var(&limit, "limit", 20, "most clients to list one by one; 0 for all")
	return cmd
}

func clientsTable(res *rdmadv1.ListClientsResponse) *output.Table {
	all, others := res.GetClients(), res.GetOthers()
	if res.GetOthersCount() > 0 || others.GetCalls() > 0 || others.GetConnections() > 0 {
		all = append(slices.Clone(all), others)
	}
	return output.Things(all, []output.Field[*rdmadv1.Client]{
		{Name: "CLIENT", Text: func(c *rdmadv1.Client) string { return cmp.Or(c.GetAddress(), "others") }},
		{Name: "CONNECTIONS", Number: (*rdmadv1.Client).GetConnections},
		{Name: "CALLS", Count: (*rdmadv1.Client).GetCalls},
		{Name: "ERRORS", Drop: 2, Count: (*rdmadv1.Client).GetErrors},
		{Name: "RECEIVED", Count: (*rdmadv1.Client).GetBytesReceived},
		{Name: "SENT", Count: (*rdmadv1.Client).GetBytesSent},
		{Name: "MEAN", Right: true, Drop: 3, Text: mean},
		{Name: "SINCE", Drop: 1, Text: since[*rdmadv1.Client]},
	})
}

// mean is the mean time of a client's calls; empty without calls.
func mean(c *rdmadv1.Client) string {
	if c.GetCalls() == 0 {
		return ""
	}
	return micros(bench.Micros(c.GetServiceTime().AsDuration()) / c.GetCalls())
}
