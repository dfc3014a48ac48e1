package cli

import (
	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/internal/manual"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newSettingsExplain(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain a setting, and print its values at all scopes",
		Long: `Explain a setting: its effect, its values, and when a change is in force. Print
all values of the setting for a scope, the widest scope first. The last one wins.

` + settingsHelp,
		Example:           "  rdmactl settings explain inline.send_max --scope connection/3",
		ValidArgsFunction: completeKeys,
	}
	scope := a.scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := findKey(args[0]); err != nil {
			return err
		}
		return show(cmd.Context(), a, api.ExplainSetting, &rdmadv1.ExplainSettingRequest{Key: args[0], Scope: *scope}, explainTable)
	}
	return cmd
}

func explainTable(res *rdmadv1.ExplainSettingResponse) *output.Table {
	t := output.Pairs()
	v := res.GetValue()
	t.Row("setting", v.GetKey())
	t.Row("does", res.GetSummary())
	t.Row("takes", res.GetAllowed())
	t.Row("changes are in force", res.GetTakesEffect())
	t.Row("more", manual.Plain(res.GetDetails()))
	t.Row("example", "rdmactl settings set "+res.GetExample())
	t.Cells(output.Cell{Text: "value"}, output.Cell{Text: v.GetValue(), Colour: output.Bold})
	said := &output.Table{Columns: []output.Column{{Name: "FROM", Min: 12}, {Name: "VALUE"}, {Name: "REVISION", Right: true}, {Name: ""}}}
	for i, c := range res.GetCandidates() {
		wins := output.Cell{}
		if i == len(res.GetCandidates())-1 {
			wins = output.Cell{Text: "wins", Colour: output.Green}
		}
		said.Cells(output.Cell{Text: source(c)}, output.Cell{Text: c.GetValue()}, output.Cell{Text: number(c.GetRevision())}, wins)
	}
	t.Next = said
	return t
}
