package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	"github.com/rdmad/rdmad/controlplane/configfile"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// fileFormats are the formats of a configuration file.
var fileFormats = []string{configfile.YAML, configfile.TOML, configfile.JSON}

func newExport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write what rdmad serves as a configuration file",
		Long: `Write the services, listeners, connectors, limits, settings and scopes in force as a
configuration file, with all changes that operators and the fleet made. Another rdmad
with this file serves the same. rdmad check takes it as it is.

FILE is YAML; TOML or JSON if its name ends in .toml or .json, or as -o says. An existing
FILE is replaced when the new one is complete. Without FILE the output is standard output.

The other sections (control, metrics, state, console, providers, tracing, slow_call,
fleet) are not in it: they belong to one machine. Elements that failed or are being
removed are left out; a line on standard error names each one with the reason.`,
		Example: `  rdmactl export rdmad.yaml
  rdmactl export -o toml`,
		Annotations: oneContext,
	}
	asked := cmd.Flags().StringP("output", "o", "", "yaml, toml or json; without it FILE's name decides")
	must(cmd.RegisterFlagCompletionFunc("output", fixed(fileFormats...)))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked != "" && !slices.Contains(fileFormats, *asked) {
			return usagef("--output %q is not one of %s", *asked, strings.Join(fileFormats, ", "))
		}
		name := dash
		if len(args) > 0 {
			name = args[0]
		}
		format := cmp.Or(*asked, exportFormat(output.FormatTable, name))
		res, err := ask(cmd.Context(), a, api.ExportConfiguration, &rdmadv1.ExportConfigurationRequest{
			Format: rdmadv1.ExportConfigurationRequest_Format(rdmadv1.ExportConfigurationRequest_Format_value[strings.ToUpper(format)]),
		})
		if err != nil {
			return err
		}
		for _, one := range res.GetLeftOut() {
			fmt.Fprintf(a.stderr, "left out: %s\n", terminal.OneLine(one))
		}
		return a.writeFile(name, []byte(res.GetText()),
			fmt.Sprintf("%s has what rdmad serves, with the settings of revision %d", name, res.GetRevision()))
	}
	return cmd
}
