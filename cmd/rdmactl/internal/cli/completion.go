package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// completeWait bounds how long a shell waits for rdmad when completing.
const completeWait = time.Second

const completionHelp = `Print a script that completes commands, settings and the connections that are
up. To load it:

  bash   source <(rdmactl completion bash)
  zsh    rdmactl completion zsh > "${fpath[1]}/_rdmactl"
  fish   rdmactl completion fish > ~/.config/fish/completions/rdmactl.fish`

var shells = map[string]func(*cobra.Command) error{
	"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(root.OutOrStdout(), true) },
	"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(root.OutOrStdout()) },
	"fish": func(root *cobra.Command) error { return root.GenFishCompletion(root.OutOrStdout(), true) },
}

func newCompletion(*app) *cobra.Command {
	return &cobra.Command{
		Use:               "completion SHELL",
		Short:             "Completion for bash, zsh or fish",
		Long:              completionHelp,
		Args:              exactly("SHELL"),
		ValidArgsFunction: fixed("bash", "zsh", "fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			generate := shells[args[0]]
			if generate == nil {
				return usagef("there is no completion for %q, only for bash, zsh and fish", args[0])
			}
			return generate(cmd.Root())
		},
	}
}

// fixed completes the first argument with one of some words.
func fixed(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// fixedValues completes a flag with one of some words, whatever the arguments.
func fixedValues(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// ask calls rdmad for a completion. When it doesn't answer there is nothing
// to offer, which the shell's debug log says.
func (a *app) ask(f func(context.Context, *grpc.ClientConn) error) {
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
	a.ask(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewConnectionServiceClient(conn).ListConnections(ctx, &rdmadv1.ListConnectionsRequest{})
		for _, c := range res.GetConnections() {
			out = append(out, cobra.CompletionWithDesc(prefix+c.GetId(), oneLine(c.GetListener()+" "+c.GetPeer())))
		}
		return err
	})
	return out
}

// listenerNames are those there are.
func (a *app) listenerNames(prefix string) (out []string) {
	a.ask(func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewListenerServiceClient(conn).ListListeners(ctx, &rdmadv1.ListListenersRequest{})
		for _, l := range res.GetListeners() {
			out = append(out, cobra.CompletionWithDesc(prefix+l.GetName(), oneLine(l.GetAddress())))
		}
		return err
	})
	return out
}

// completeConnection completes ID.
func (a *app) completeConnection(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.connectionIDs(""), cobra.ShellCompDirectiveNoFileComp
}

// completeScope completes --scope.
func (a *app) completeScope(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch kind, _, _ := strings.Cut(typed, "/"); kind {
	case "connection":
		return a.connectionIDs("connection/"), cobra.ShellCompDirectiveNoFileComp
	case "listener":
		return a.listenerNames("listener/"), cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"global", "listener/", "peer/", "connection/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeKeys completes names of settings.
func completeKeys(_ *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
	for _, k := range keys {
		if !contains(args, k.name) {
			out = append(out, k.name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeAssignments completes KEY= and then VALUE.
func completeAssignments(_ *cobra.Command, args []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	name, _, value := strings.Cut(typed, "=")
	if value {
		k, err := findKey(name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, v := range k.values() {
			out = append(out, name+"="+v)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	for _, k := range keys {
		if !contains(args, k.name+"=") {
			out = append(out, k.name+"=")
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// contains says whether one of args begins with s.
func contains(args []string, s string) bool {
	for _, arg := range args {
		if strings.HasPrefix(arg, s) {
			return true
		}
	}
	return false
}
