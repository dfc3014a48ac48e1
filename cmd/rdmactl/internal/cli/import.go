package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newImport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Put a configuration file in force on a running rdmad",
		Long: `Put the services, listeners, connectors, limits, settings and scopes of FILE in force, in
one change: everything or nothing. FILE is an export (rdmactl export) or a configuration
file, in YAML, or TOML or JSON by its name. - stands for standard input.

A section of FILE replaces the section in force: elements that it does not name are
removed. A section that FILE does not have is left alone. The change lasts over restarts,
and over later versions of rdmad's own configuration file, like other changes of operators.
To go back to that file, import it.

rdmad first checks everything, binds the addresses and opens the directories. Every mistake
is printed with its line. Elements that stay the same continue. If only limits or access
change, connections stay. Connections of all others finish their calls until --deadline.

The other sections (control, metrics, state, console, providers, tracing, slow_call, fleet)
belong to one machine: a value there must be the one in force. A setting of a listener or
peer that rdmad's own file gives stays in force if FILE does not name it; a line on standard
error names each one.`,
		Example: `  rdmactl import rdmad.yaml --dry-run
  rdmactl export | rdmactl --addr 192.0.2.8:20050 import -`,
		ValidArgsFunction: configurationFiles,
	}
	var c changeFlags
	c.flags(a, cmd)
	c.commentFlag(cmd)
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := a.readInput(cmd, args[0], "configuration", maxConfiguration)
		if err != nil {
			return err
		}
		res, err := ask(cmd.Context(), a, api.ImportConfiguration, &rdmadv1.ImportConfigurationRequest{
			Text: string(text), File: args[0], DryRun: c.dryRun, ExpectedRevision: c.expected(cmd), Comment: c.comment, Deadline: deadline(cmd, *wait),
		})
		if err != nil {
			return err
		}
		for _, one := range res.GetKept() {
			fmt.Fprintf(a.stderr, "stays in force: %s\n", terminal.OneLine(one))
		}
		return a.imported(res, args[0], c.dryRun)
	}
	return cmd
}

// configurationFiles completes the name of a configuration file.
var configurationFiles = cobra.FixedCompletions([]string{"json", "toml", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)

// imported prints what an import changed.
func (a *app) imported(res *rdmadv1.ImportConfigurationResponse, file string, dryRun bool) (err error) {
	if res.GetUnchanged() {
		return a.said(res, "nothing changes: what %s has is in force already", file)
	}
	p := a.printer()
	if dryRun {
		err = p.Note("dry run: nothing changed; %s would change this:", file)
	} else {
		err = p.Note("%s is in force; the settings are at revision %d", file, res.GetRevision())
	}
	if err != nil {
		return err
	}
	return p.Answer(res, func() *output.Table { return importTable(res) })
}

// importTable shows elements field by field, then settings and their effects.
func importTable(res *rdmadv1.ImportConfigurationResponse) *output.Table {
	var settings *output.Table
	if len(res.GetSettings()) > 0 {
		settings = changesTable(res.GetSettings(), res.GetEffects())
	}
	if len(res.GetElements()) == 0 {
		return settings
	}
	t := &output.Table{Next: settings, Columns: []output.Column{{Name: "KIND"}, {Name: "NAME"}, {Name: "ACTION"}, {Name: "FIELD"}, {Name: "BEFORE"}, {Name: "AFTER"}}}
	for _, e := range res.GetElements() {
		head := []output.Cell{{Text: e.GetKind()}, {Text: orNone(e.GetName())}, {Text: e.GetAction().String(), Colour: actionColours[e.GetAction()]}}
		fields := e.GetFields()
		if len(fields) == 0 {
			fields = []*rdmadv1.FieldChange{{}}
		}
		for _, f := range fields {
			t.Cells(append(head[:3:3], output.Cell{Text: orNone(f.GetField())}, output.Cell{Text: orNone(f.GetBefore())}, output.Cell{Text: orNone(f.GetAfter())})...)
		}
	}
	return t
}

var actionColours = map[rdmadv1.ElementChange_Action]output.Colour{
	rdmadv1.ElementChange_ADDED:    output.Green,
	rdmadv1.ElementChange_REPLACED: output.Yellow,
	rdmadv1.ElementChange_REMOVED:  output.Red,
}

// maxConfiguration is the size of the largest file that rdmad takes, in bytes.
const maxConfiguration = 192 << 10
