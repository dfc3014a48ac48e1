package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectorsAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME --listen HOST:PORT --target HOST:PORT",
		Short: "Add a connector: accept TCP clients for an RPC-over-RDMA server",
		Long: `Bind an address and accept TCP clients at once. Each client gets a connection to
the target. The connector is back after a restart, with the same port. Other
connectors are not affected.`,
		Example: `  rdmactl connectors add out --listen 127.0.0.1:22049 --target 192.0.2.7:20049
  rdmactl connectors add lab --listen 192.0.2.1:0 --target nas:20049 --allow 192.0.2.0/24 --max-connections 64`,
	}
	req := &rdmadv1.AddConnectorRequest{}
	specFlags(cmd, req, spec.Of[spec.Connector]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "listen", "target"); err != nil {
			return err
		}
		req.Name = args[0]
		return show(cmd.Context(), a, api.AddConnector, req, connectorTable)
	}
	return cmd
}

func connectorTable[R interface{ GetConnector() *rdmadv1.Connector }](res R) *output.Table {
	c := res.GetConnector()
	return endpointTable(c, c.GetState(), [2]string{"address", c.GetAddress()}, [2]string{"target", c.GetTarget()}, [2]string{"provider", c.GetProvider()})
}

func newConnectorsUpdate(a *app) *cobra.Command {
	return newUpdate(&cobra.Command{
		Short: "Change a connector",
		Long: `Change a connector. Values without a flag do not change. The change lasts until
"rdmactl connectors unset", also over restarts and reloads. Existing clients stay if only
access and limits change. With another address or target, new clients come to the new
connector at once, and the old one's are drained. If the new connector can't be made,
nothing changes.`,
		Example: `  rdmactl connectors update out --target 192.0.2.8:20049
  rdmactl connectors update out --max-connections 64 --deny 192.0.2.66`,
		ValidArgsFunction: a.completeConnector,
	}, &rdmadv1.UpdateConnectorRequest{}, spec.Of[spec.Connector](), a.updateConnector)
}

func (a *app) updateConnector(ctx context.Context, req *rdmadv1.UpdateConnectorRequest) error {
	return show(ctx, a, api.UpdateConnector, req, connectorTable)
}

func newConnectorsRemove(a *app) *cobra.Command {
	return newRemoval(a, api.RemoveConnector, &rdmadv1.RemoveConnectorRequest{}, &removal{
		what: "connector", whose: "clients",
		cmd: cobra.Command{
			Use:   "remove NAME",
			Short: "Remove a connector, and drain its clients",
			Long: `Stop accepting clients and drain the connector's clients. The command returns when
the last one is gone. If you interrupt it, rdmad still drains them. Other connectors
are not affected. Connectors of the configuration file are back at the next start or
reload.`,
			Example:           "  rdmactl connectors remove lab --deadline 10s",
			ValidArgsFunction: a.completeConnector,
		},
		left: func(ctx context.Context, conn *grpc.ClientConn, name string) (uint64, bool) {
			all, _ := pages(ctx, conn, api.ListConnectors, &rdmadv1.ListConnectorsRequest{}, 0)
			return left(all.GetConnectors(), name)
		},
	})
}
