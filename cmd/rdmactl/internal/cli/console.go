package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConsole(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Print an address that opens the web console",
		Long: `Print an address that opens the web console in a browser, with your role. Its
token works once, within two minutes. rdmad must have console.listen in its
configuration file.`,
		Example: "  rdmactl console --open",
		Args:    onlyGroup,
	}
	open := cmd.Flags().Bool("open", false, "open the address in a browser with xdg-open")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		res, err := ask(cmd.Context(), a, api.OpenConsole, &rdmadv1.OpenConsoleRequest{})
		if err != nil {
			return err
		}
		if err := a.said(res, "%s", res.GetAddress()); err != nil || !*open {
			return err
		}
		return browse(cmd.Context(), res.GetAddress())
	}
	cmd.AddCommand(newConsoleSessions(a))
	return cmd
}

// browse opens an address in the user's browser.
func browse(ctx context.Context, address string) error {
	err := exec.CommandContext(ctx, "xdg-open", address).Run() //nolint:gosec // the address is of the user's own rdmad
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("there is no xdg-open to open a browser with; copy the address into one")
	}
	if err != nil {
		return fmt.Errorf("xdg-open: %w; copy the address into a browser", err)
	}
	return nil
}

func newConsoleSessions(a *app) *cobra.Command {
	return groupOf(&cobra.Command{
		Use:     "sessions",
		Short:   "List and end sessions of the web console",
		Long:    "List and end sessions of the web console. sessions alone does what sessions list does.",
		Example: "  rdmactl console sessions",
	}, newConsoleSessionsList(a), newConsoleSessionsEnd(a))
}

func newConsoleSessionsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the sessions, oldest first",
		Example: "  rdmactl console sessions list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, api.ListConsoleSessions, &rdmadv1.ListConsoleSessionsRequest{}, consoleSessionsTable)
		},
	}
}

func consoleSessionsTable(res *rdmadv1.ListConsoleSessionsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "ID"}, {Name: "WHO", Min: 8}, {Name: "ROLE"}, {Name: "BROWSER", Drop: 2}, {Name: "BEGAN", Drop: 1}, {Name: "EXPIRES"},
	}}
	for _, s := range res.GetSessions() {
		t.Row(s.GetId(), s.GetActor(), role(s.GetRole()), s.GetBrowser(), clock(s.GetBegan()), clock(s.GetExpires()))
	}
	return t
}

// completeConsoleSession completes the ID of a session.
func (a *app) completeConsoleSession(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	res := try(a, api.ListConsoleSessions, &rdmadv1.ListConsoleSessionsRequest{})
	for _, s := range res.GetSessions() {
		ids = append(ids, cobra.CompletionWithDesc(s.GetId(), terminal.OneLine(s.GetActor())))
	}
	return ids, noFiles
}

func newConsoleSessionsEnd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "end ID",
		Short:             "End a session and its requests at once",
		Long:              "End a session and its requests at once. You need the role admin.",
		Example:           "  rdmactl console sessions end k3vw2zqa",
		ValidArgsFunction: a.completeConsoleSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := ask(cmd.Context(), a, api.EndConsoleSession, &rdmadv1.EndConsoleSessionRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return a.said(res, "session %s has ended", args[0])
		},
	}
}
