package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newExtensions(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "extensions", Short: "List, enable and disable protocol extensions"},
		newExtensionsList(a), newExtensionsEnable(a), newExtensionsDisable(a))
}

func newExtensionsList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the extensions at a scope",
		Long: `List all extensions with their state at a scope, and the number of connections
that use each. JSON and YAML have the reason why this rdmad lacks one.`,
		Example: "  rdmactl extensions list --scope listener/nfs",
	}
	scope := a.scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show(cmd.Context(), a, rdmadv1.NewExtensionServiceClient, rdmadv1.ExtensionServiceClient.ListExtensions,
			&rdmadv1.ListExtensionsRequest{Scope: *scope},
			func(res *rdmadv1.ListExtensionsResponse) *output.Table { return extensionsTable(res.GetExtensions()) })
	}
	return cmd
}

func extensionsTable(all []*rdmadv1.Extension) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME"},
		{Name: "STATE"},
		{Name: "FROM", Min: 12},
		{Name: "CONNECTIONS", Right: true},
		{Name: "SPECIFICATION", Drop: 1},
		{Name: "SUMMARY", Min: 20},
	}}
	for _, e := range all {
		state := output.Cell{Text: e.GetValue()}
		switch {
		case !e.GetAvailable():
			state = output.Cell{Text: "not available", Colour: output.Red}
		case e.GetEnabled():
			state.Colour = output.Green
		}
		t.Cells(output.Cell{Text: e.GetName()}, state, output.Cell{Text: e.GetSource()},
			output.Cell{Text: fmt.Sprint(e.GetConnections())}, output.Cell{Text: e.GetSpecification()}, output.Cell{Text: e.GetSummary()})
	}
	return t
}

func newExtensionsEnable(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "enable NAME…",
		Short:   "Turn extensions on at a scope",
		Long:    "Turn extensions on at a scope, all of them or none, and print the effects on\neach connection in the scope.\n\n" + settingsHelp,
		Example: "  rdmactl extensions enable read_replies --scope peer/192.0.2.0/24",
	}
	scope, c := a.extensionFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		res, err := ask(cmd.Context(), a, rdmadv1.NewExtensionServiceClient, rdmadv1.ExtensionServiceClient.EnableExtensions,
			&rdmadv1.EnableExtensionsRequest{
				Names: names, Scope: *scope, ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, ConfirmWithin: c.window(cmd),
			})
		if err != nil {
			return err
		}
		return a.made(res, *scope, c.dryRun, res.GetConfirmDeadline(), effectsTable(res.GetEffects()))
	}
	return cmd
}

func newExtensionsDisable(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "disable NAME…",
		Short: "Turn extensions off at a scope",
		Long: `Turn extensions off at a scope, all of them or none, and print the effects on each
connection in the scope. rdmad first finishes what it agreed on with a peer.

` + settingsHelp,
		Example: "  rdmactl extensions disable msgp ccp --dry-run",
	}
	scope, c := a.extensionFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		res, err := ask(cmd.Context(), a, rdmadv1.NewExtensionServiceClient, rdmadv1.ExtensionServiceClient.DisableExtensions,
			&rdmadv1.DisableExtensionsRequest{
				Names: names, Scope: *scope, ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, ConfirmWithin: c.window(cmd),
			})
		if err != nil {
			return err
		}
		return a.made(res, *scope, c.dryRun, res.GetConfirmDeadline(), effectsTable(res.GetEffects()))
	}
	return cmd
}

// extensionFlags adds what enable and disable have in common.
func (a *app) extensionFlags(cmd *cobra.Command) (scope *string, c *changeFlags) {
	cmd.Args = checkExtensions
	cmd.ValidArgsFunction = completeExtensions
	c = &changeFlags{}
	scope = a.scopeFlag(cmd)
	c.flags(a, cmd)
	c.confirmFlag(cmd)
	return scope, c
}

// checkExtensions refuses names that no extension has.
func checkExtensions(cmd *cobra.Command, names []string) error {
	if err := checkArguments(cmd, names); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, name := range names {
		if _, err := findKey(extensionPrefix + name); err != nil {
			return usagef("there is no extension %q%s", name, orDidYouMean(name, extensionNames(), "; rdmactl extensions list has all names"))
		}
		if seen[name] {
			return usagef("%s is given twice", name)
		}
		seen[name] = true
	}
	return nil
}
