package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// givenFields are the flags that the command line gives, in their order, and all that
// there are of those that set a field of a specification.
func givenFields(cmd *cobra.Command) (mask *fieldmaskpb.FieldMask, all []string) {
	mask = &fieldmaskpb.FieldMask{}
	for f := range spec.Of[spec.Listener]() {
		_, field, _ := strings.Cut(f.API(), ".")
		name := strings.ReplaceAll(field, "_", "-")
		if flag := cmd.Flags().Lookup(name); flag != nil && field != "" {
			all = append(all, name)
			if flag.Changed {
				mask.Paths = append(mask.Paths, field)
			}
		}
	}
	return mask, all
}

func newListenersAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME --address HOST:PORT --service NAME",
		Short: "Accept connections at another address",
		Long: `Bind an address and accept connections at once. It is back after a restart,
with the port that it got. Other listeners notice nothing.`,
		Example: `  rdmactl listeners add fast --address 0.0.0.0:20060 --service export
  rdmactl listeners add lab --address 192.0.2.1:0 --service export --allow 192.0.2.0/24 --max-connections 64`,
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	req := &rdmadv1.AddListenerRequest{}
	specFlags(cmd, req, spec.Of[spec.Listener]())
	must(cmd.RegisterFlagCompletionFunc("service", a.completeServiceFlag))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address", "service"); err != nil {
			return err
		}
		req.Name = args[0]
		res, err := ask(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.AddListener, req)
		if err != nil {
			return err
		}
		return a.printer().Answer(res, func() *output.Table { return listenerTable(res.GetListener()) })
	}
	return cmd
}

// needed refuses a command line without these flags.
func needed(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if v, err := cmd.Flags().GetString(name); err == nil && v == "" {
			return usagef("%s needs --%s; see --help", cmd.CommandPath(), name)
		}
	}
	return nil
}

func newListenersUpdate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update NAME",
		Short: "Change who may connect to a listener, and how many",
		Long: `Change who may connect to a listener, and how many; what isn't given stays as
it is. Connections that are up stay, unless --disconnect ends those that may
not be there any more.`,
		Example: `  rdmactl listeners update nfs --max-connections-per-peer 16
  rdmactl listeners update nfs --deny 192.0.2.66 --disconnect`,
		Args:              exactly("NAME"),
		ValidArgsFunction: a.completeListener,
	}
	req := &rdmadv1.UpdateListenerRequest{}
	specFlags(cmd, req, spec.Of[spec.Listener]())
	disconnect := cmd.Flags().Bool("disconnect", false, "end the connections that may not be there any more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mask, all := givenFields(cmd)
		if len(mask.Paths) == 0 {
			return usagef("%s needs one of --%s", cmd.CommandPath(), strings.Join(all, ", --"))
		}
		req.Name, req.UpdateMask, req.Disconnect = args[0], mask, *disconnect
		res, err := ask(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.UpdateListener, req)
		if err != nil {
			return err
		}
		p := a.printer()
		if *disconnect {
			if err := p.Note("connections ended: %d", res.GetDisconnected()); err != nil {
				return err
			}
		}
		return p.Answer(res, func() *output.Table { return listenerTable(res.GetListener()) })
	}
	return cmd
}

func newListenersRemove(a *app) *cobra.Command {
	return newRemoval(a, &removal{
		what: "listener", whose: "connections",
		cmd: cobra.Command{
			Use:   "remove NAME",
			Short: "Stop accepting, and drain a listener's connections",
			Long: `Stop accepting and drain the listener's connections; it returns when the last
is down. Other listeners notice nothing. Interrupted, rdmad goes on draining.
Listeners of the configuration file are back at the next start.`,
			Example:           "  rdmactl listeners remove lab --deadline 10s",
			ValidArgsFunction: a.completeListener,
		},
		remove: func(ctx context.Context, conn *grpc.ClientConn, name string, deadline *durationpb.Duration) (removed, error) {
			return rdmadv1.NewListenerServiceClient(conn).RemoveListener(ctx, &rdmadv1.RemoveListenerRequest{Name: name, Deadline: deadline})
		},
		left: func(ctx context.Context, conn *grpc.ClientConn, name string) (uint64, bool) {
			all := &rdmadv1.ListListenersResponse{}
			if err := fetchListeners(ctx, conn, all); err != nil {
				return 0, false
			}
			return left(all.GetListeners(), name)
		},
	})
}
