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

func newListenersAdd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME --address HOST:PORT --service NAME",
		Short: "Add a listener at an address",
		Long: `Bind an address and accept connections at once. The listener is back after a
restart, with the same port. Other listeners are not affected.`,
		Example: `  rdmactl listeners add fast --address 0.0.0.0:20060 --service export
  rdmactl listeners add lab --address 192.0.2.1:0 --service export --allow 192.0.2.0/24 --max-connections 64`,
	}
	req := &rdmadv1.AddListenerRequest{}
	specFlags(cmd, req, spec.Of[spec.Listener]())
	must(cmd.RegisterFlagCompletionFunc("service", a.completeService))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address", "service"); err != nil {
			return err
		}
		req.Name = args[0]
		return show(cmd.Context(), a, api.AddListener, req, listenerTable)
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
	req := &rdmadv1.UpdateListenerRequest{}
	cmd := newUpdate(&cobra.Command{
		Short: "Change a listener",
		Long: `Change a listener. Values without a flag do not change. The change lasts until
"rdmactl listeners unset", also over restarts and reloads. Existing connections stay if
only access and limits change; --disconnect ends those that the listener would no
longer accept. With another address, service or provider, new connections come to the
new listener at once, and the old one's are drained. If the new listener can't be made,
nothing changes.`,
		Example: `  rdmactl listeners update nfs --max-connections-per-peer 16
  rdmactl listeners update nfs --deny 192.0.2.66 --disconnect
  rdmactl listeners update nfs --address 0.0.0.0:20049`,
		ValidArgsFunction: a.completeListener,
	}, req, spec.Of[spec.Listener](), a.updateListener)
	must(cmd.RegisterFlagCompletionFunc("service", a.completeService))
	cmd.Flags().BoolVar(&req.Disconnect, "disconnect", false, "end connections that the listener would no longer accept")
	return cmd
}

func (a *app) updateListener(ctx context.Context, req *rdmadv1.UpdateListenerRequest) error {
	for i, path := range req.GetUpdateMask().GetPaths() { // an older rdmad knows only the fields of admission
		req.UpdateMask.Paths[i] = strings.TrimPrefix(path, "admission.")
	}
	res, err := ask(ctx, a, api.UpdateListener, req)
	if err != nil {
		return err
	}
	p := a.printer()
	if req.GetDisconnect() {
		if err := p.Note("connections ended: %d", res.GetDisconnected()); err != nil {
			return err
		}
	}
	return p.Answer(res, func() *output.Table { return listenerTable(res) })
}

func newListenersRemove(a *app) *cobra.Command {
	return newRemoval(a, api.RemoveListener, &rdmadv1.RemoveListenerRequest{}, &removal{
		what: "listener", whose: "connections",
		cmd: cobra.Command{
			Use:   "remove NAME",
			Short: "Remove a listener, and drain its connections",
			Long: `Stop accepting connections and drain the listener's. The command returns when the
last one is down. If you interrupt it, rdmad still drains them. Other listeners are
not affected. Listeners of the configuration file are back at the next start or
reload.`,
			Example:           "  rdmactl listeners remove lab --deadline 10s",
			ValidArgsFunction: a.completeListener,
		},
		left: func(ctx context.Context, conn *grpc.ClientConn, name string) (uint64, bool) {
			all, _ := pages(ctx, conn, api.ListListeners, &rdmadv1.ListListenersRequest{}, 0)
			return left(all.GetListeners(), name)
		},
	})
}
