package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// admissionFlags are how many may connect, and who.
type admissionFlags struct{ rdmadv1.Admission }

// admissionNames are the flags, and the fields of Admission with dashes.
var admissionNames = []string{"max-connections", "max-connections-per-peer", "max-handshakes", "idle", "allow", "deny"}

func (m *admissionFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint32Var(&m.MaxConnections, "max-connections", 0, "most connections; 0 for as many as the daemon takes")
	f.Uint32Var(&m.MaxConnectionsPerPeer, "max-connections-per-peer", 0, "most connections from one address; 0 for as many as the listener takes")
	f.Uint32Var(&m.MaxHandshakes, "max-handshakes", 0, "most connections being made at once; 0 for 64")
	f.Func("idle", "time without a call after which a connection is closed, such as 8h; 0s for never", func(text string) error {
		d, err := time.ParseDuration(text)
		m.Idle = durationpb.New(d)
		return err
	})
	f.StringSliceVar(&m.Allow, "allow", nil, "addresses and CIDRs that may connect, with commas; \"\" for all")
	f.StringSliceVar(&m.Deny, "deny", nil, "addresses and CIDRs that may not, allowed or not; \"\" for none")
	for _, name := range admissionNames {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
}

// given is a mask of what the command line says.
func (m *admissionFlags) given(cmd *cobra.Command) *fieldmaskpb.FieldMask {
	mask := &fieldmaskpb.FieldMask{}
	for _, name := range admissionNames {
		if cmd.Flags().Changed(name) {
			mask.Paths = append(mask.Paths, strings.ReplaceAll(name, "-", "_"))
		}
	}
	return mask
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
	req, admission := &rdmadv1.AddListenerRequest{}, &admissionFlags{}
	f := cmd.Flags()
	f.StringVar(&req.Address, "address", "", "host:port to accept at; port 0 picks one")
	f.StringVar(&req.Service, "service", "", "service that answers; rdmactl services list")
	f.StringVar(&req.Provider, "provider", "", "verbs provider (default softiwarp)")
	f.BoolVar(&req.Rpcbind, "rpcbind", false, "register the service's programs with rpcbind")
	admission.flags(cmd)
	must(cmd.RegisterFlagCompletionFunc("address", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("service", a.completeServiceFlag))
	must(cmd.RegisterFlagCompletionFunc("provider", fixedValues(providers.Names()...)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address", "service"); err != nil {
			return err
		}
		req.Name, req.Admission = args[0], &admission.Admission
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
	admission := &admissionFlags{}
	admission.flags(cmd)
	disconnect := cmd.Flags().Bool("disconnect", false, "end the connections that may not be there any more")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mask := admission.given(cmd)
		if len(mask.Paths) == 0 {
			return usagef("%s needs one of --%s", cmd.CommandPath(), strings.Join(admissionNames, ", --"))
		}
		res, err := ask(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.UpdateListener,
			&rdmadv1.UpdateListenerRequest{Name: args[0], Admission: &admission.Admission, UpdateMask: mask, Disconnect: *disconnect})
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
