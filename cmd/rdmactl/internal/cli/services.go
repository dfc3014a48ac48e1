package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newServices(a *app) *cobra.Command {
	cmd := group(&cobra.Command{Use: "services", Short: "What answers the calls of listeners"})
	add := group(&cobra.Command{Use: "add", Short: "Make a service that listeners can name"})
	add.AddCommand(newServicesAddNFS(a), newServicesAddForward(a), newServicesAddEcho(a))
	cmd.AddCommand(newServicesList(a), add, newServicesRemove(a))
	return cmd
}

func newServicesList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "All services",
		Example:           "  rdmactl services list",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := ask(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.ListServices, &rdmadv1.ListServicesRequest{})
			if err != nil {
				return err
			}
			return a.printer().Answer(res, func() *output.Table { return servicesTable(res.GetServices()) })
		},
	}
}

func servicesTable(all []*rdmadv1.Service) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME", Min: 8},
		{Name: "KIND"},
		{Name: "STATE"},
		{Name: "FROM", Drop: 1},
		{Name: "LISTENERS", Min: 9},
		{Name: "TCP", Drop: 2},
		{Name: "PARAMETERS", Min: 12},
	}}
	for _, s := range all {
		state, what := output.Cell{Text: "up"}, serviceText(s)
		switch {
		case s.GetFailure() != "":
			state, what = output.Cell{Text: "failed", Colour: output.Red}, s.GetFailure()
		case s.GetDraining():
			state = output.Cell{Text: "draining", Colour: output.Yellow}
		}
		t.Cells(output.Cell{Text: s.GetName()}, output.Cell{Text: s.GetKind()}, state, output.Cell{Text: s.GetSource()},
			output.Cell{Text: strings.Join(s.GetListeners(), ",")}, output.Cell{Text: s.GetTcpAddress()}, output.Cell{Text: what})
	}
	return t
}

// serviceText is the parameters of a service.
func serviceText(s *rdmadv1.Service) string {
	if f := s.GetForward(); f != nil {
		return forwardText(f)
	}
	return nfsText(s.GetNfs())
}

// nfsText is the parameters of an nfs service as its flags say them.
func nfsText(n *rdmadv1.NfsService) string {
	if n == nil {
		return ""
	}
	parts := []string{n.GetPath()}
	if n.GetReadOnly() {
		parts = append(parts, "read-only")
	}
	if n.GetSquash() != "" {
		parts = append(parts, "squash="+n.GetSquash())
	}
	if n.GetAsyncMetadata() {
		parts = append(parts, "async-metadata")
	}
	return strings.Join(parts, " ")
}

func newServicesAddNFS(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nfs NAME --path DIR",
		Short: "NFSv3 and MOUNT over a directory",
		Long: `NFSv3 and MOUNT over a directory of rdmad's machine. It is back after a
restart. A listener makes it reachable over RPC-over-RDMA.`,
		Example: `  rdmactl services add nfs lab --path /srv/lab --read-only
  rdmactl services add nfs home --path /home --squash root --tcp-listen 192.0.2.1:2049`,
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	nfs := &rdmadv1.NfsService{}
	specFlags(cmd, nfs, spec.Of[spec.NFS]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "path"); err != nil {
			return err
		}
		return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{Name: args[0], Kind: &rdmadv1.AddServiceRequest_Nfs{Nfs: nfs}})
	}
	return cmd
}

func newServicesAddEcho(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "echo NAME",
		Short:             "The echo program, for rdmactl bench",
		Example:           "  rdmactl services add echo test",
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{
				Name: args[0], Kind: &rdmadv1.AddServiceRequest_Echo{Echo: &rdmadv1.EchoService{}},
			})
		},
	}
}

func (a *app) addService(ctx context.Context, req *rdmadv1.AddServiceRequest) error {
	res, err := ask(ctx, a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.AddService, req)
	if err != nil {
		return err
	}
	return a.printer().Answer(res, func() *output.Table { return servicesTable([]*rdmadv1.Service{res.GetService()}) })
}

func newServicesRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "End a service that no listener names",
		Long: `End a service that no listener names. What it served stays as it is. Services
of the configuration file are back at the next start.`,
		Example:           "  rdmactl services remove lab",
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeService,
	}
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var res *rdmadv1.RemoveServiceResponse
		err := a.callFor(cmd.Context(), a.draining(*wait), nil, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			req := &rdmadv1.RemoveServiceRequest{Name: args[0], Deadline: deadline(cmd, *wait)}
			res, err = rdmadv1.NewListenerServiceClient(conn).RemoveService(ctx, req)
			return err
		})
		if err != nil {
			return goesOn(cmd.Context(), err, "rdmad goes on ending the service")
		}
		return a.said(res, "service %s is removed", args[0])
	}
	return cmd
}
