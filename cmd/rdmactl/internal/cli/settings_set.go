package cli

import (
	"github.com/spf13/cobra"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newSettingsSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set KEY=VALUE…",
		Short: "Change settings at a scope, all or none, and see what that did",
		Long: `Change settings at a scope, all of them or none, and see what that did to
each connection in it. KEY=unset takes a value away from the scope, so that
wider scopes show through.

With --confirm-within the change is taken back by itself, also after a crash,
unless rdmactl settings confirm comes in time; nothing else can be changed
until then.

` + settingsHelp,
		Example: `  rdmactl settings set inline.send_max=2048 ddp.min_chunk=8192
  rdmactl settings set remote_invalidation.use=off --scope peer/192.0.2.0/24
  rdmactl settings set credits.max=32 --scope connection/7 --dry-run
  rdmactl settings set credits.policy=adaptive --confirm-within 60s --comment "try it"`,
		Args:              atLeastOne("KEY=VALUE"),
		ValidArgsFunction: completeAssignments,
	}
	scope := a.scopeFlag(cmd)
	var c changeFlags
	c.flags(a, cmd)
	c.confirmFlag(cmd)
	c.commentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		values, taken, err := parseAssignments(args)
		if err != nil {
			return err
		}
		return a.setSettings(cmd.Context(), &rdmadv1.SetSettingsRequest{
			Scope: *scope, Settings: values, Unset: taken, DryRun: c.dryRun,
			ExpectedRevision: c.expected(cmd), ConfirmWithin: c.window(cmd), Comment: c.comment,
		})
	}
	return cmd
}

// atLeastOne checks that there are arguments, by their name.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs %s; see --help", cmd.CommandPath(), name)
		}
		return nil
	}
}
