package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// try calls rdmad for a completion. When it doesn't answer there is nothing
// to offer, which the shell's debug log says.
func (a *app) try(f func(context.Context, *grpc.ClientConn) error) {
	err := a.check()
	if err == nil {
		a.timeout = completeWait
		err = a.call(context.Background(), f)
	}
	if err != nil {
		cobra.CompDebugln(a.explain(err), false)
	}
}

// connectionIDs are those that are up, with a description for the shell.
func (a *app) connectionIDs(prefix string) (out []string) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewConnectionServiceClient(conn).ListConnections(ctx, &rdmadv1.ListConnectionsRequest{PageSize: mostOffered})
		for _, c := range res.GetConnections() {
			out = append(out, cobra.CompletionWithDesc(prefix+c.GetId(), terminal.OneLine(c.GetListener()+" "+c.GetPeer())))
		}
		return err
	})
	return out
}

// mostOffered bounds what a shell is given to choose from.
const mostOffered = 500

// listenerNames are those there are.
func (a *app) listenerNames(prefix string) (out []string) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewListenerServiceClient(conn).ListListeners(ctx, &rdmadv1.ListListenersRequest{PageSize: mostOffered})
		for _, l := range res.GetListeners() {
			out = append(out, cobra.CompletionWithDesc(prefix+l.GetName(), terminal.OneLine(l.GetAddress())))
		}
		return err
	})
	return out
}

// completeConnector completes a connector's NAME.
func (a *app) completeConnector(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, a.connectorNames, noFiles)
}

// connectorNames are those there are.
func (a *app) connectorNames() (out []string) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewConnectorServiceClient(conn).ListConnectors(ctx, &rdmadv1.ListConnectorsRequest{PageSize: mostOffered})
		for _, c := range res.GetConnectors() {
			out = append(out, cobra.CompletionWithDesc(c.GetName(), terminal.OneLine(c.GetAddress()+" to "+c.GetTarget())))
		}
		return err
	})
	return out
}

// serviceNames are those there are.
func (a *app) serviceNames() (out []string) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewListenerServiceClient(conn).ListServices(ctx, &rdmadv1.ListServicesRequest{})
		for _, s := range res.GetServices() {
			out = append(out, cobra.CompletionWithDesc(s.GetName(), terminal.OneLine(strings.TrimSpace(s.GetKind()+" "+serviceText(s)))))
		}
		return err
	})
	return out
}

// revisions are the newest ones; only those that wait to be confirmed, if
// that is asked for.
func (a *app) revisions(unconfirmed bool) (out []string) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewSettingsServiceClient(conn).ListRevisions(ctx, &rdmadv1.ListRevisionsRequest{})
		for _, r := range res.GetRevisions() {
			if !unconfirmed || r.GetState() == rdmadv1.Revision_UNCONFIRMED {
				what := clock(r.GetTime()) + " " + changesText(r.GetChanges(), r.GetScope())
				out = append(out, cobra.CompletionWithDesc(fmt.Sprint(r.GetRevision()), terminal.OneLine(what)))
			}
		}
		return err
	})
	return out
}

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	inOrder = noFiles | cobra.ShellCompDirectiveKeepOrder
)

// first completes the first argument.
func first(args []string, offer func() []string, how cobra.ShellCompDirective) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	return offer(), how
}

// completeConnection completes ID.
func (a *app) completeConnection(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, func() []string { return a.connectionIDs("") }, inOrder)
}

// completeListener completes a listener's NAME.
func (a *app) completeListener(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, func() []string { return a.listenerNames("") }, noFiles)
}

// completeService completes a service's NAME.
func (a *app) completeService(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, a.serviceNames, noFiles)
}

// completeRevision completes REVISION, the newest first.
func (a *app) completeRevision(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, func() []string { return append(a.revisions(false), "0\tthe configuration file alone") }, inOrder)
}

// completeUnconfirmed completes a REVISION that waits to be confirmed.
func (a *app) completeUnconfirmed(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return first(args, func() []string { return a.revisions(true) }, noFiles)
}

// completeRevisionFlag completes --revision: the current one.
func (a *app) completeRevisionFlag(*cobra.Command, []string, string) (out []string, _ cobra.ShellCompDirective) {
	a.try(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{})
		if err == nil {
			out = []string{fmt.Sprintf("%d\tthe current revision", res.GetRevision())}
		}
		return err
	})
	return out, noFiles
}

// completeListenerFlag completes --listener.
func (a *app) completeListenerFlag(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.listenerNames(""), noFiles
}

// completeServiceFlag completes --service.
func (a *app) completeServiceFlag(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.serviceNames(), noFiles
}

// completeScope completes --scope.
func (a *app) completeScope(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch kind, _, found := strings.Cut(typed, "/"); {
	case found && kind == "connection":
		return a.connectionIDs("connection/"), inOrder
	case found && kind == "listener":
		return a.listenerNames("listener/"), noFiles
	case found:
		return nil, noFiles
	}
	return []string{"global", "listener/", "peer/", "connection/"}, noFiles | cobra.ShellCompDirectiveNoSpace
}
