package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const settingsHelp = `A setting has a value at a scope. Narrower scopes win:

  global          everything (the default)
  listener/NAME   connections that the listener accepted
  peer/CIDR       connections from these addresses; the longest prefix wins
  connection/ID   one connection, until it ends`

func newSettings(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "settings", Short: "Show and change the live settings", Long: settingsHelp},
		newSettingsGet(a), newSettingsExplain(a), newSettingsSet(a), newSettingsConfirm(a), newSettingsHistory(a),
		newSettingsRollback(a), newSettingsWatch(a), newSettingsExport(a), newSettingsImport(a), newSettingsAdvise(a))
}

// scopeFlag adds --scope.
func (a *app) scopeFlag(cmd *cobra.Command) *string {
	scope := "global"
	cmd.Flags().Var(&checkedText{&scope, checkScope}, "scope", "global, listener/NAME, peer/CIDR or connection/ID")
	must(cmd.RegisterFlagCompletionFunc("scope", a.completeScope))
	return &scope
}

func newSettingsGet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [KEY…]",
		Short: "Print the values in force at a scope, and where each comes from",
		Long:  "Print the values in force at a scope, and where each comes from.\nKEY is a setting, or the first part of several, such as inline.\n\n" + settingsHelp,
		Example: `  rdmactl settings get
  rdmactl settings get inline credits.max --scope connection/3`,
		ValidArgsFunction: completeKeys,
	}
	scope := a.scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkKeys(args); err != nil {
			return err
		}
		return show(cmd.Context(), a, api.GetSettings, &rdmadv1.GetSettingsRequest{Scope: *scope, Keys: args}, settingsTable)
	}
	return cmd
}

func settingsTable(res *rdmadv1.GetSettingsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "KEY"}, {Name: "VALUE"}, {Name: "FROM", Min: 12}, {Name: "REVISION", Right: true, Drop: 1}}}
	for _, v := range res.GetValues() {
		t.Row(v.GetKey(), v.GetValue(), source(v), number(v.GetRevision()))
	}
	return t
}

// source is where a value comes from, for config with file and line.
func source(v *rdmadv1.SettingValue) string {
	if v.GetLocation() == "" {
		return v.GetSource()
	}
	return v.GetSource() + " " + v.GetLocation()
}

// number writes n, nothing for 0.
func number(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10)
}
