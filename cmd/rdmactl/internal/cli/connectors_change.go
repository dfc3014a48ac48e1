package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectorsAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME --listen HOST:PORT --target HOST:PORT",
		Short: "Let TCP clients in for another RPC-over-RDMA server",
		Long: `Bind an address and accept TCP clients at once; the target is connected to for
each of them. It is back after a restart, with the port that it got. Others
notice nothing.`,
		Example: `  rdmactl connectors add out --listen 127.0.0.1:22049 --target 192.0.2.7:20049
  rdmactl connectors add lab --listen 192.0.2.1:0 --target nas:20049 --allow 192.0.2.0/24 --max-connections 64`,
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	req := &rdmadv1.AddConnectorRequest{}
	specFlags(cmd, req, spec.Of[spec.Connector]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "listen", "target"); err != nil {
			return err
		}
		req.Name = args[0]
		res, err := ask(cmd.Context(), a, rdmadv1.NewConnectorServiceClient, rdmadv1.ConnectorServiceClient.AddConnector, req)
		if err != nil {
			return err
		}
		return a.printer().Answer(res, func() *output.Table { return connectorTable(res.GetConnector()) })
	}
	return cmd
}

// connectorTable shows one connector.
func connectorTable(c *rdmadv1.Connector) *output.Table {
	t := &output.Table{Columns: make([]output.Column, 2)}
	m := c.GetAdmission()
	for _, row := range [][2]string{
		{"name", c.GetName()},
		{"state", strings.TrimSuffix(word(c.GetState().String())+": "+c.GetFailure(), ": ")},
		{"address", c.GetAddress()},
		{"target", c.GetTarget()},
		{"provider", c.GetProvider()},
		{"max connections", orNoLimit(m.GetMaxConnections())},
		{"max connections per peer", orNoLimit(m.GetMaxConnectionsPerPeer())},
		{"allow", orWords(m.GetAllow(), "all")},
		{"deny", orWords(m.GetDeny(), "nobody")},
	} {
		t.Row(row[0], row[1])
	}
	return t
}

func newConnectorsRemove(a *app) *cobra.Command {
	return newRemoval(a, &removal{
		what: "connector", whose: "clients",
		cmd: cobra.Command{
			Use:   "remove NAME",
			Short: "Stop accepting, and drain a connector's clients",
			Long: `Stop accepting and drain the connector's clients; it returns when the last is
gone. Others notice nothing. Interrupted, rdmad goes on draining. Connectors of
the configuration file are back at the next start.`,
			Example:           "  rdmactl connectors remove lab --deadline 10s",
			ValidArgsFunction: a.completeConnector,
		},
		remove: func(ctx context.Context, conn *grpc.ClientConn, name string, deadline *durationpb.Duration) (removed, error) {
			return rdmadv1.NewConnectorServiceClient(conn).RemoveConnector(ctx, &rdmadv1.RemoveConnectorRequest{Name: name, Deadline: deadline})
		},
		left: func(ctx context.Context, conn *grpc.ClientConn, name string) (uint64, bool) {
			all := &rdmadv1.ListConnectorsResponse{}
			if err := fetchConnectors(ctx, conn, all); err != nil {
				return 0, false
			}
			return left(all.GetConnectors(), name)
		},
	})
}
