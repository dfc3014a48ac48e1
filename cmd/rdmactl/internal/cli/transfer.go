package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const exportHelp = `What every scope says, connections apart, for settings import to load. FILE, or
standard output without it, is YAML when it is called .yaml or .yml or -o yaml
says so, else JSON. A file that is there is replaced when all of the new one is
written.`

func newSettingsExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "export [FILE]",
		Short:   "What every scope says, for settings import",
		Long:    exportHelp,
		Example: "  rdmactl settings export tuned.yaml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s: %q is one argument too many; see --help", cmd.CommandPath(), args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := ask(cmd.Context(), a, rdmadv1.NewSettingsServiceClient, rdmadv1.SettingsServiceClient.ExportSettings,
				&rdmadv1.ExportSettingsRequest{})
			if err != nil {
				return err
			}
			name := toStdout
			if len(args) > 0 {
				name = args[0]
			}
			encode := output.JSON
			if a.format == output.FormatYAML || a.format == output.FormatTable && isYAML(name) {
				encode = output.YAML
			}
			out, err := encode(res)
			if err != nil {
				return err
			}
			if name == toStdout {
				_, err = a.stdout.Write(out)
				return err
			}
			if err := replaceFile(name, out); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "%s has the settings of revision %d\n", name, res.GetRevision())
			return nil
		},
	}
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// replaceFile puts another file in the place of one, or leaves that as it is.
// What is no file, such as /dev/stdout, is written to.
func replaceFile(name string, data []byte) (err error) {
	if info, statErr := os.Stat(name); statErr == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func newSettingsImport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make what every scope says the same as in an export",
		Long: `Make what every scope says the same as in an export, connections apart, as one
change. Scopes that aren't in it lose what they say. FILE is JSON or YAML; -
stands for standard input.`,
		Example: `  rdmactl settings import tuned.yaml --dry-run
  rdmactl settings export | rdmactl --addr 192.0.2.8:20050 settings import -`,
		Args: exactly("FILE"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"json", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	var c changeFlags
	c.flags(a, cmd)
	c.commentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		exported, err := readExport(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		res, err := ask(cmd.Context(), a, rdmadv1.NewSettingsServiceClient, rdmadv1.SettingsServiceClient.ImportSettings,
			&rdmadv1.ImportSettingsRequest{
				Scopes: exported.GetScopes(), Base: exported.GetBase(),
				ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, Comment: c.comment,
			})
		if err != nil {
			return err
		}
		return a.made(res, everything, c.dryRun, nil, changesTable(res.GetChanges(), res.GetEffects()))
	}
	return cmd
}

// maxExport bounds the file, in bytes: rdmad takes no larger request.
const maxExport = 256 << 10

// readExport reads a file or standard input.
func readExport(stdin io.Reader, name string) (*rdmadv1.ExportSettingsResponse, error) {
	in := stdin
	if name != toStdout {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxExport+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > maxExport:
		return nil, fmt.Errorf("%s: larger than %d bytes, which no export is", name, maxExport)
	}
	m, err := parseExport(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no export of settings: %w", name, err)
	}
	return m, nil
}

// parseExport reads YAML, of which JSON is a part.
func parseExport(text []byte) (*rdmadv1.ExportSettingsResponse, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if _, ok := doc["scopes"]; !ok {
		return nil, errors.New("it has no scopes")
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	m := &rdmadv1.ExportSettingsResponse{}
	return m, protojson.Unmarshal(raw, m)
}
