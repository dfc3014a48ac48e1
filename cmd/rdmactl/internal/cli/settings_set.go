package cli

import (
	"github.com/spf13/cobra"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newSettingsSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set KEY=VALUE…",
		Short: "Change settings at a scope, and print the effects",
		Long: `Change settings at a scope, all of them or none, and print the effects on each
connection in the scope. KEY=unset removes the value from the scope: the value of
a wider scope is then in force.

With --confirm-within rdmad rolls the change back, also after a crash, unless you
run rdmactl settings confirm in time. Until then rdmad refuses other changes of
settings, and imports.

` + settingsHelp,
		Example: `  rdmactl settings set inline.send_max=2048 ddp.min_chunk=8192
  rdmactl settings set remote_invalidation.use=off --scope peer/192.0.2.0/24
  rdmactl settings set credits.max=32 --scope connection/7 --dry-run
  rdmactl settings set credits.policy=adaptive --confirm-within 60s --comment "try it"`,
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
