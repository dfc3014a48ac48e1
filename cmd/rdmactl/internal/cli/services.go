package cli

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newServices(a *app) *cobra.Command {
	add := group(&cobra.Command{Use: "add", Short: "Add a service for listeners"}, newServicesAddNFS(a), newServicesAddForward(a), newServicesAddEcho(a))
	return group(&cobra.Command{Use: "services", Short: "List, add, change and remove the services of listeners"},
		newServicesList(a), add, newServicesUpdate(a), newUnset("service", a.completeService, &rdmadv1.UpdateServiceRequest{}, a.updateService), newServicesRemove(a))
}

func newServicesList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "All services",
		Example: "  rdmactl services list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, api.ListServices, &rdmadv1.ListServicesRequest{},
				func(res *rdmadv1.ListServicesResponse) *output.Table { return servicesTable(res.GetServices()) })
		},
	}
}

func servicesTable(all []*rdmadv1.Service) *output.Table {
	return output.Things(all, []output.Field[*rdmadv1.Service]{
		{Name: "NAME", Min: 8, Text: (*rdmadv1.Service).GetName},
		{Name: "KIND", Text: (*rdmadv1.Service).GetKind},
		{Name: "STATE", Cell: serviceState},
		{Name: "FROM", Drop: 1, Text: from[*rdmadv1.Service]},
		{Name: "LISTENERS", Min: 9, Text: func(s *rdmadv1.Service) string { return strings.Join(s.GetListeners(), ",") }},
		{Name: "TCP", Drop: 2, Text: (*rdmadv1.Service).GetTcpAddress},
		{Name: "PARAMETERS", Min: 12, Text: func(s *rdmadv1.Service) string { return cmp.Or(s.GetFailure(), serviceText(s)) }},
	})
}

func serviceState(s *rdmadv1.Service) output.Cell {
	switch {
	case s.GetFailure() != "":
		return output.Cell{Text: "failed", Colour: output.Red}
	case s.GetDraining():
		return output.Cell{Text: "draining", Colour: output.Yellow}
	}
	return output.Cell{Text: "up"}
}

// serviceText is the parameters of a service.
func serviceText(s *rdmadv1.Service) string {
	if f := s.GetForward(); f != nil {
		return strings.Join(parameters(f.ProtoReflect(), reflect.TypeFor[spec.Forward]()), " ")
	}
	return strings.Join(parameters(s.GetNfs().ProtoReflect(), reflect.TypeFor[spec.NFS]()), " ")
}

// parameters are the fields of a specification that a message has, as flags say them: paths and
// addresses alone, and of the clients their number.
func parameters(m protoreflect.Message, t reflect.Type) (parts []string) {
	for f := range spec.Fields(t) {
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(f.API()))
		if fd == nil || !m.Has(fd) {
			continue
		}
		name, v := strings.ReplaceAll(f.Path, "_", "-"), m.Get(fd)
		switch {
		case name == "tcp-listen": // has a column
		case name == "exports":
			for i := range v.List().Len() {
				if len(parts) > 0 {
					parts[len(parts)-1] += ","
				}
				parts = append(parts, parameters(v.List().Get(i).Message(), f.Type.Elem())...)
			}
		case name == "path" || name == "address":
			parts = append(parts, v.String())
		case fd.Kind() == protoreflect.BoolKind:
			parts = append(parts, name)
		case fd.IsList():
			parts = append(parts, fmt.Sprintf("%s=%d", name, v.List().Len()))
		case fd.Message() != nil:
			parts = append(parts, name+"="+v.Message().Interface().(*durationpb.Duration).AsDuration().String())
		default:
			parts = append(parts, name+"="+v.String())
		}
	}
	return parts
}

func newServicesAddNFS(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nfs NAME --path DIR",
		Short: "Add an NFSv3 and MOUNT server over directories",
		Long: `Serve directories of rdmad's machine by NFSv3 and MOUNT. The service is back after
a restart. Add a listener to reach it over RPC-over-RDMA. --clients and --exports are
lists in YAML or JSON with the keys of the configuration file.`,
		Example: `  rdmactl services add nfs lab --path /srv/lab --read-only
  rdmactl services add nfs home --path /home --squash root --tcp-listen 192.0.2.1:2049
  rdmactl services add nfs data --path /srv/data --clients '[{networks: [192.0.2.0/24]}, {networks: [0.0.0.0/0], read_only: on}]'
  rdmactl services add nfs many --exports '[{path: /srv/a}, {path: /srv/b, require_mountpoint: on}]'`,
	}
	nfs := &rdmadv1.NfsService{}
	specFlags(cmd, nfs, spec.Of[spec.NFS]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("exports") {
			if err := needed(cmd, "path"); err != nil {
				return err
			}
		}
		return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{Name: args[0], Kind: &rdmadv1.AddServiceRequest_Nfs{Nfs: nfs}})
	}
	return cmd
}

func newServicesAddForward(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forward NAME --address HOST:PORT",
		Short: "Add a service that forwards calls to a server on TCP",
		Long: `Forward calls to an ONC RPC server on TCP, such as an NFSv4 server. Each client
connection has one connection to the server. The service is back after a restart.
Add a listener to reach it over RPC-over-RDMA.`,
		Example: `  rdmactl services add forward filer --address 192.0.2.9:2049
  rdmactl services add forward filer --address 192.0.2.9:2049 --reserved-port --call-timeout 5m`,
	}
	forward := &rdmadv1.ForwardService{}
	specFlags(cmd, forward, spec.Of[spec.Forward]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address"); err != nil {
			return err
		}
		return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{Name: args[0], Kind: &rdmadv1.AddServiceRequest_Forward{Forward: forward}})
	}
	return cmd
}

func newServicesAddEcho(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "echo NAME",
		Short:   "Add the echo program, for rdmactl bench",
		Example: "  rdmactl services add echo test",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{
				Name: args[0], Kind: &rdmadv1.AddServiceRequest_Echo{Echo: &rdmadv1.EchoService{}},
			})
		},
	}
}

func (a *app) addService(ctx context.Context, req *rdmadv1.AddServiceRequest) error {
	return show(ctx, a, api.AddService, req, serviceTable)
}

func newServicesUpdate(a *app) *cobra.Command {
	return newUpdate(&cobra.Command{
		Short: "Change a service",
		Long: `Change a service of kind nfs or forward. Values without a flag do not change. The
change lasts until "rdmactl services unset", also over restarts and reloads. The new
service takes the addresses of the old one at once, with new listeners, and the
connections of the old ones are drained. If the new service can't be made, nothing
changes. --clients and --exports are lists in YAML or JSON with the keys of the
configuration file, and replace the present lists.`,
		Example: `  rdmactl services update export --read-only
  rdmactl services update lab --path /srv/lab2 --clients '[{networks: [192.0.2.0/24]}]'
  rdmactl services update filer --address 192.0.2.10:2049`,
		ValidArgsFunction: a.completeService,
	}, &rdmadv1.UpdateServiceRequest{}, spec.Of[spec.Service](), a.updateService)
}

func (a *app) updateService(ctx context.Context, req *rdmadv1.UpdateServiceRequest) error {
	return show(ctx, a, api.UpdateService, req, serviceTable)
}

// serviceTable is one service, with what was changed at runtime.
func serviceTable[R interface{ GetService() *rdmadv1.Service }](res R) *output.Table {
	t := servicesTable([]*rdmadv1.Service{res.GetService()})
	if changed := res.GetService().GetChanged(); len(changed) > 0 {
		t.Next = output.Pairs()
		changedRow(t.Next, changed)
	}
	return t
}

func newServicesRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a service that no listener uses",
		Long: `Remove a service that no listener uses. Its files stay as they are. Services of
the configuration file are back at the next start or reload.`,
		Example:           "  rdmactl services remove lab",
		ValidArgsFunction: a.completeService,
	}
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &rdmadv1.RemoveServiceRequest{Name: args[0], Deadline: deadline(cmd, *wait)}
		res, err := drain(cmd.Context(), a, api.RemoveService, req, *wait, nil, "removes the service")
		if err != nil {
			return err
		}
		return a.said(res, "service %s is removed", args[0])
	}
	return cmd
}
