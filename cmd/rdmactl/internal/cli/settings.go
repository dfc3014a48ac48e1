package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const settingsHelp = `Settings hold at a scope, the narrower winning:

  global          everything (the default)
  listener/NAME   connections that the listener accepted
  peer/CIDR       connections from these addresses; the longest prefix wins
  connection/ID   one connection, until it ends`

func newSettings(a *app) *cobra.Command {
	cmd := group(&cobra.Command{Use: "settings", Short: "The live settings", Long: settingsHelp})
	cmd.AddCommand(newSettingsGet(a), newSettingsSet(a))
	return cmd
}

// scopeFlag adds --scope.
func (a *app) scopeFlag(cmd *cobra.Command) *string {
	scope := cmd.Flags().String("scope", "global", "global, listener/NAME, peer/CIDR or connection/ID")
	must(cmd.RegisterFlagCompletionFunc("scope", a.completeScope))
	return scope
}

func newSettingsGet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [KEY…]",
		Short: "What is in force at a scope, and where it comes from",
		Long:  "What is in force at a scope, and where it comes from.\nKEY is a setting or the first part of some, such as inline.\n\n" + settingsHelp,
		Args:  cobra.ArbitraryArgs,
	}
	scope := a.scopeFlag(cmd)
	cmd.ValidArgsFunction = completeKeys
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
			res, err := rdmadv1.NewSettingsServiceClient(conn).GetSettings(ctx, &rdmadv1.GetSettingsRequest{Scope: *scope, Keys: args})
			if err != nil {
				return err
			}
			return a.printer().Answer(res, func() *output.Table { return settingsTable(res) })
		})
	}
	return cmd
}

func settingsTable(res *rdmadv1.GetSettingsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "KEY"}, {Name: "VALUE"}, {Name: "FROM"}, {Name: "REVISION", Right: true, Drop: 1}}}
	for _, v := range res.GetValues() {
		revision := ""
		if v.GetRevision() > 0 {
			revision = fmt.Sprint(v.GetRevision())
		}
		t.Row(v.GetKey(), v.GetValue(), v.GetSource(), revision)
	}
	return t
}

func newSettingsSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set KEY=VALUE…",
		Short: "Change settings at a scope, all or none, and see what that did",
		Long: `Change settings at a scope, all of them or none, and see what that did to
each connection in it. KEY=unset takes a value away from the scope, so that
wider scopes show through.

` + settingsHelp,
		Example: `  rdmactl settings set inline.send_max=2048 ddp.min_chunk=8192
  rdmactl settings set remote_invalidation.use=off --scope peer/192.0.2.0/24
  rdmactl settings set credits.max=32 --scope connection/7 --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s needs KEY=VALUE; see --help", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: completeAssignments,
	}
	scope := a.scopeFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "say what it would do, change nothing")
	revision := cmd.Flags().Uint32("revision", 0, "only if the settings are still at this revision")
	must(cmd.RegisterFlagCompletionFunc("revision", cobra.NoFileCompletions))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		values, taken, err := parseAssignments(args)
		if err != nil {
			return err
		}
		req := &rdmadv1.SetSettingsRequest{Scope: *scope, Settings: values, Unset: taken, DryRun: *dryRun}
		if cmd.Flags().Changed("revision") {
			req.ExpectedRevision = revision
		}
		return a.setSettings(cmd.Context(), req)
	}
	return cmd
}

func (a *app) setSettings(ctx context.Context, req *rdmadv1.SetSettingsRequest) error {
	return a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		res, err := rdmadv1.NewSettingsServiceClient(conn).SetSettings(ctx, req)
		if err != nil {
			return err
		}
		p := a.printer()
		switch {
		case req.GetDryRun():
			err = p.Note("dry run: nothing is changed, %s stays at revision %d", req.GetScope(), res.GetRevision())
		default:
			err = p.Note("%s is at revision %d", req.GetScope(), res.GetRevision())
		}
		if err != nil {
			return err
		}
		return p.Answer(res, func() *output.Table { return effectsTable(res.GetEffects()) })
	})
}

var outcomeColours = map[rdmadv1.Effect_Outcome]output.Colour{
	rdmadv1.Effect_APPLIED:           output.Green,
	rdmadv1.Effect_PENDING_RECONNECT: output.Yellow,
	rdmadv1.Effect_UNSUPPORTED:       output.Red,
}

func effectsTable(effects []*rdmadv1.Effect) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "CONNECTION", Right: true}, {Name: "OUTCOME"}, {Name: "REASON"}}}
	for _, e := range effects {
		t.Cells(output.Cell{Text: e.GetConnectionId()},
			output.Cell{Text: e.GetOutcome().String(), Colour: outcomeColours[e.GetOutcome()]},
			output.Cell{Text: e.GetReason()})
	}
	return t
}
