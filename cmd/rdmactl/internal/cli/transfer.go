package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

const exportHelp = `Write the settings in force at the global scope, and the values of every listener and peer
scope. The output has the sections settings and scopes of a configuration
file: put it into one as it is, or load it with settings import. It is YAML; TOML or
JSON if FILE ends in .toml or .json, JSON with -o json. An existing FILE is replaced when
the new one is complete. Settings of connections are not in it: they end with them.`

func newSettingsExport(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "export [FILE]",
		Short:   "Write the settings of all scopes as a part of a configuration file",
		Long:    exportHelp,
		Example: "  rdmactl settings export tuned.yaml\n  rdmactl settings export -o json | jq .settings.credits",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := dash
			if len(args) > 0 {
				name = args[0]
			}
			if name != dash {
				if err := a.alone("export to a file"); err != nil {
					return err
				}
			}
			res, err := ask(cmd.Context(), a, api.ExportSettings, &rdmadv1.ExportSettingsRequest{})
			if err != nil {
				return err
			}
			d, err := settingsproto.Dump(res)
			if err != nil {
				return err
			}
			out, err := configfile.InForce(d).Write(exportFormat(a.format, name))
			if err != nil {
				return err
			}
			return a.writeFile(name, out, fmt.Sprintf("%s has the settings of revision %d", name, res.GetRevision()))
		},
	}
}

// writeFile writes to standard output, or replaces a file and says so.
func (a *app) writeFile(name string, out []byte, done string) error {
	if name == dash {
		_, err := a.stdout.Write(out)
		return err
	}
	if err := replaceFile(name, out); err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, done)
	return nil
}

// exportFormat is that of the file's name, unless -o says which.
func exportFormat(asked, name string) string {
	switch ext := strings.TrimPrefix(filepath.Ext(name), "."); {
	case asked == output.FormatJSON, asked == output.FormatTable && ext == configfile.JSON:
		return configfile.JSON
	case asked == output.FormatTable && ext == configfile.TOML:
		return configfile.TOML
	}
	return configfile.YAML
}

// replaceFile replaces a file by a new one, or leaves the old one as it is. It
// writes to a path that is no file, such as /dev/stdout. Links stay, and the mode and the owner of the old file.
func replaceFile(name string, data []byte) (err error) {
	asked := name
	defer func() { err = named(err, asked) }()
	if file, linkErr := filepath.EvalSymlinks(name); linkErr == nil {
		name = file
	}
	info, statErr := os.Lstat(name)
	if statErr == nil && !info.Mode().IsRegular() {
		f, err := os.Create(name)
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
	mode := os.FileMode(0o644)
	if statErr == nil {
		mode = info.Mode().Perm()
		if old, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(old.Uid), int(old.Gid)) // root may; others own it as a rule
		}
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// named returns an error of a file with the name that the user gave, in place of the name of a temporary file or of
// a link's target.
func named(err error, asked string) error {
	if of, ok := errors.AsType[*os.LinkError](err); ok { // of os.Rename
		return &os.PathError{Op: of.Op, Path: asked, Err: of.Err}
	}
	if of, ok := errors.AsType[*os.PathError](err); ok {
		of.Path = asked
	}
	return err
}

func newSettingsImport(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make the settings of all scopes those of an export or a configuration file",
		Long: `Replace the settings of all scopes except connections by those of FILE, in one change.
FILE is an export or a configuration file; of the latter, only the sections settings and
scopes are read. It is YAML, or TOML or JSON by its name. - stands for standard input.
The change removes a setting that an operator made if FILE does not have it. A setting of
the daemon's own configuration file stays in force if FILE does not name it.`,
		Example: `  rdmactl settings import tuned.yaml --dry-run
  rdmactl settings export | rdmactl --addr 192.0.2.8:20050 settings import -`,
		ValidArgsFunction: configurationFiles,
	}
	var c changeFlags
	c.flags(a, cmd)
	c.commentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := a.readInput(cmd, args[0], "export", maxExport)
		if err != nil {
			return err
		}
		file, err := configfile.Read(args[0], text)
		if err != nil {
			return err
		}
		res, err := ask(cmd.Context(), a, api.ImportSettings, &rdmadv1.ImportSettingsRequest{
			Scopes: scopeSettings(file), Base: settingsproto.Message(&file.Values),
			ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, Comment: c.comment,
		})
		if err != nil {
			return blame(file, err)
		}
		return a.made(res, everything, c.dryRun, nil, changesTable(res.GetChanges(), res.GetEffects()))
	}
	return cmd
}

// scopeSettings are the settings of narrower scopes, in the order of their names.
func scopeSettings(c *configfile.Contents) (all []*rdmadv1.ScopeSettings) {
	for scope, v := range c.Scopes {
		all = append(all, &rdmadv1.ScopeSettings{Scope: scope.String(), Settings: settingsproto.Message(&v)})
	}
	slices.SortFunc(all, func(a, b *rdmadv1.ScopeSettings) int { return strings.Compare(a.GetScope(), b.GetScope()) })
	return all
}

// blame puts the lines of the file that give a setting before what rdmad says is wrong
// with it.
func blame(c *configfile.Contents, err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		bad, _ := d.(*errdetails.BadRequest)
		for _, v := range bad.GetFieldViolations() {
			if lines := linesOf(c, v.GetField()); lines != "" {
				v.Field, v.Description = "", lines+": "+v.GetDescription()
			}
		}
		if next, err := status.New(st.Code(), st.Message()).WithDetails(protoadapt.MessageV1Of(d.(proto.Message))); bad != nil && err == nil {
			return next.Err()
		}
	}
	return err
}

// linesOf are the places of the file that give a setting, at any scope.
func linesOf(c *configfile.Contents, setting string) string {
	var lines []string
	for key, at := range c.Origins {
		if at.Line > 0 && strings.HasSuffix(key, "."+setting) {
			lines = append(lines, at.String())
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), ", ")
}

// maxExport bounds the file, in bytes.
const maxExport = 1 << 20

// readInput reads a file or standard input, which holds a thing of a kind, of at most so many
// bytes. Several contexts cannot share standard input.
func (a *app) readInput(cmd *cobra.Command, name, kind string, most int) ([]byte, error) {
	in := cmd.InOrStdin()
	if name == dash {
		if err := a.alone(cmd.Name() + " from standard input"); err != nil {
			return nil, err
		}
	} else {
		f, err := openInput(cmd.Context(), name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(untilDone(cmd.Context(), in), int64(most)+1))
	switch {
	case cmd.Context().Err() != nil:
		return nil, interrupted(cmd.Context(), cmd.Context().Err())
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(text) > most:
		return nil, fmt.Errorf("%s: larger than %d bytes, which no %s is", name, most, kind)
	}
	return text, nil
}

// openInput opens a file to be read. The open of a named pipe waits for a writer; an interruption ends the wait.
func openInput(ctx context.Context, name string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, interrupted(ctx, ctx.Err())
	}
}
