package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

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
		return show(cmd.Context(), a, api.ListExtensions, &rdmadv1.ListExtensionsRequest{Scope: *scope}, extensionsTable)
	}
	return cmd
}

func extensionsTable(res *rdmadv1.ListExtensionsResponse) *output.Table {
	return output.Things(res.GetExtensions(), []output.Field[*rdmadv1.Extension]{
		{Name: "NAME", Text: (*rdmadv1.Extension).GetName},
		{Name: "STATE", Cell: extensionState},
		{Name: "FROM", Min: 12, Text: (*rdmadv1.Extension).GetSource},
		{Name: "CONNECTIONS", Number: (*rdmadv1.Extension).GetConnections},
		{Name: "SPECIFICATION", Drop: 1, Text: (*rdmadv1.Extension).GetSpecification},
		{Name: "SUMMARY", Min: 20, Text: (*rdmadv1.Extension).GetSummary},
	})
}

func extensionState(e *rdmadv1.Extension) output.Cell {
	if !e.GetAvailable() {
		return output.Cell{Text: "not available", Colour: output.Red}
	}
	return output.Cell{Text: e.GetValue(), Colour: either(e.GetEnabled(), output.Green, output.Plain)}
}

func newExtensionsEnable(a *app) *cobra.Command {
	return a.turnExtensions(&cobra.Command{
		Use:     "enable NAME…",
		Short:   "Turn extensions on at a scope",
		Long:    "Turn extensions on at a scope, all of them or none, and print the effects on\neach connection in the scope.\n\n" + settingsHelp,
		Example: "  rdmactl extensions enable read_replies --scope peer/192.0.2.0/24",
	}, func(ctx context.Context, c api, req *rdmadv1.EnableExtensionsRequest) (turned, error) {
		return c.EnableExtensions(ctx, req)
	})
}

func newExtensionsDisable(a *app) *cobra.Command {
	return a.turnExtensions(&cobra.Command{
		Use:   "disable NAME…",
		Short: "Turn extensions off at a scope",
		Long: `Turn extensions off at a scope, all of them or none, and print the effects on each
connection in the scope. rdmad first finishes what it agreed on with a peer.

` + settingsHelp,
		Example: "  rdmactl extensions disable msgp ccp --dry-run",
	}, func(ctx context.Context, c api, req *rdmadv1.EnableExtensionsRequest) (turned, error) {
		return c.DisableExtensions(ctx, &rdmadv1.DisableExtensionsRequest{
			Names: req.GetNames(), Scope: req.GetScope(), ExpectedRevision: req.ExpectedRevision, DryRun: req.GetDryRun(), ConfirmWithin: req.GetConfirmWithin(),
		})
	})
}

// turned is the answer to enable and disable.
type turned interface {
	changed
	GetConfirmDeadline() *timestamppb.Timestamp
}

// turnExtensions adds to a command what enable and disable have in common.
func (a *app) turnExtensions(cmd *cobra.Command, turn func(context.Context, api, *rdmadv1.EnableExtensionsRequest) (turned, error)) *cobra.Command {
	cmd.Args = checkExtensions
	cmd.ValidArgsFunction = completeExtensions
	var c changeFlags
	scope := a.scopeFlag(cmd)
	c.flags(a, cmd)
	c.confirmFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		var res turned
		err := a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			res, err = turn(ctx, newAPI(conn), &rdmadv1.EnableExtensionsRequest{
				Names: names, Scope: *scope, ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, ConfirmWithin: c.window(cmd),
			})
			return err
		})
		if err != nil {
			return err
		}
		return a.made(res, *scope, c.dryRun, res.GetConfirmDeadline(), effectsTable(res.GetEffects()))
	}
	return cmd
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
