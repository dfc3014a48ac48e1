package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// try asks rdmad for a completion. When it doesn't answer there is nothing
// to offer, which the shell's debug log says.
func try[Q, R any](a *app, method unary[Q, R], req Q) (res R) {
	err := a.check()
	if err == nil {
		if !a.global.Changed("timeout") {
			a.timeout = completeWait
		}
		res, err = ask(context.Background(), a, method, req)
	}
	if err != nil {
		cobra.CompDebugln(a.explain(err), false)
	}
	return res
}

// connectionIDs are those that are up, with a description for the shell.
func (a *app) connectionIDs(prefix string) (out []string) {
	res := try(a, api.ListConnections, &rdmadv1.ListConnectionsRequest{PageSize: mostOffered})
	for _, c := range res.GetConnections() {
		out = append(out, cobra.CompletionWithDesc(prefix+c.GetId(), terminal.OneLine(c.GetListener()+" "+c.GetPeer())))
	}
	return out
}

// mostOffered bounds what a shell is given to choose from.
const mostOffered = 500

func (a *app) listeners() *rdmadv1.ListListenersResponse {
	return try(a, api.ListListeners, &rdmadv1.ListListenersRequest{PageSize: mostOffered})
}

func listenerNames(prefix string, all []*rdmadv1.Listener) (out []string) {
	for _, l := range all {
		out = append(out, cobra.CompletionWithDesc(prefix+l.GetName(), terminal.OneLine(l.GetAddress())))
	}
	return out
}

// connectorNames are those there are.
func (a *app) connectorNames(prefix string) (out []string) {
	res := try(a, api.ListConnectors, &rdmadv1.ListConnectorsRequest{PageSize: mostOffered})
	for _, c := range res.GetConnectors() {
		out = append(out, cobra.CompletionWithDesc(prefix+c.GetName(), terminal.OneLine(c.GetAddress()+" to "+c.GetTarget())))
	}
	return out
}

// withConnectors are the listeners that a connection may have: its connector is one. An rdmad that does not answer is
// asked once.
func (a *app) withConnectors(prefix string) []string {
	res := a.listeners()
	if res == nil {
		return nil
	}
	return append(listenerNames(prefix, res.GetListeners()), a.connectorNames(prefix)...)
}

// completeConnector completes the name of a connector.
func (a *app) completeConnector(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.connectorNames(""), noFiles
}

// completeService completes the name of a service.
func (a *app) completeService(*cobra.Command, []string, string) (out []string, _ cobra.ShellCompDirective) {
	res := try(a, api.ListServices, &rdmadv1.ListServicesRequest{})
	for _, s := range res.GetServices() {
		out = append(out, cobra.CompletionWithDesc(s.GetName(), terminal.OneLine(strings.TrimSpace(s.GetKind()+" "+serviceText(s)))))
	}
	return out, noFiles
}

// revisions are the newest ones; only those that wait for operators to confirm
// them, if that is asked for.
func (a *app) revisions(unconfirmed bool) (out []string) {
	res := try(a, api.ListRevisions, &rdmadv1.ListRevisionsRequest{})
	for _, r := range res.GetRevisions() {
		if !unconfirmed || r.GetState() == rdmadv1.Revision_UNCONFIRMED && r.GetKind() != rdmadv1.Revision_FLEET {
			what := clock(r.GetTime()) + " " + changesText(r.GetChanges(), r.GetScope())
			out = append(out, cobra.CompletionWithDesc(fmt.Sprint(r.GetRevision()), terminal.OneLine(what)))
		}
	}
	return out
}

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	inOrder = noFiles | cobra.ShellCompDirectiveKeepOrder
)

// completeConnection completes ID.
func (a *app) completeConnection(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.connectionIDs(""), inOrder
}

// completeListener completes the name of a listener.
func (a *app) completeListener(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return listenerNames("", a.listeners().GetListeners()), noFiles
}

// completeRevision completes REVISION, the newest first.
func (a *app) completeRevision(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return append(a.revisions(false), "0\tthe configuration file alone"), inOrder
}

// completeUnconfirmed completes a REVISION that operators can confirm.
func (a *app) completeUnconfirmed(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.revisions(true), noFiles
}

// completeRevisionFlag completes --revision: the current one.
func (a *app) completeRevisionFlag(*cobra.Command, []string, string) (out []string, _ cobra.ShellCompDirective) {
	res := try(a, api.GetStatus, &rdmadv1.GetStatusRequest{})
	if res != nil {
		out = []string{fmt.Sprintf("%d\tthe current revision", res.GetRevision())}
	}
	return out, noFiles
}

// completeScope completes --scope.
func (a *app) completeScope(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch kind, _, found := strings.Cut(typed, "/"); {
	case found && kind == "connection":
		return a.connectionIDs("connection/"), inOrder
	case found && kind == "listener":
		return a.withConnectors("listener/"), noFiles
	case found:
		return nil, noFiles
	}
	return []string{"global", "listener/", "peer/", "connection/"}, noFiles | cobra.ShellCompDirectiveNoSpace
}
