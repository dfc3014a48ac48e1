package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/contexts"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/configfile"
)

const configHelp = `Name the control planes of several machines. A context has a name, an address and the
files of TLS. They are in RDMACTL_CONFIG, else in rdmactl/config.yaml in your
configuration directory ($XDG_CONFIG_HOME, else ~/.config).

--context, RDMACTL_CONTEXT or config use chooses a context. --context a,b chooses
several.`

func newConfig(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		Aliases: []string{"context"},
		Short:   "Name control planes, and choose one",
		Long:    configHelp,
	}, newConfigContexts(a), newConfigAdd(a), newConfigUse(a), newConfigShow(a), newConfigRemove(a))
}

func newConfigContexts(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "contexts",
		Aliases:     []string{"list"},
		Short:       "List the contexts",
		Example:     "  rdmactl config contexts",
		Annotations: noContext,
		RunE: func(*cobra.Command, []string) error {
			file, err := loadContexts()
			if err != nil {
				return err
			}
			return a.printer().Answer(file, func() *output.Table { return contextsTable(file) })
		},
	}
}

func contextsTable(file *contexts.File) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "CURRENT"}, {Name: "NAME"}, {Name: "ADDRESS"}, {Name: "CERTIFICATE"}}}
	for _, c := range file.Contexts {
		mark := ""
		if c.Name == file.Current {
			mark = "*"
		}
		t.Row(mark, c.Name, c.Addr, c.TLS.Cert)
	}
	return t
}

func newConfigAdd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "add NAME",
		Aliases: []string{"set"},
		Short:   "Add a context, or replace it, by --addr and --tls-…",
		Long: `Add a context with the address of --addr and the files of --tls-cert, --tls-key,
--tls-ca and --tls-server-name, or replace the one of this name. The first context
becomes the current one.`,
		Example:           "  rdmactl config add nas1 --addr nas1:20050 --tls-cert me.pem --tls-key me.key --tls-ca ca.pem",
		Annotations:       noContext,
		ValidArgsFunction: a.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.where.addr == "" {
				return usagef("config add needs --addr")
			}
			if !contexts.ValidName(args[0]) {
				return usagef("%q is no name: use letters, digits, dots, dashes and underscores", args[0])
			}
			dir, err := os.Getwd()
			if err != nil {
				return err
			}
			tls := a.where.tls.TLS
			if strings.HasPrefix(a.where.addr, "unix:") {
				tls = contexts.TLS{} // the environment's are for other addresses
			}
			return a.changeContexts(cmd.Context(), func(f *contexts.File) error {
				f.Put(contexts.Context{Name: args[0], Addr: a.where.addr, TLS: tls.Absolute(dir)})
				return nil
			})
		},
	}
}

func newConfigUse(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           "  rdmactl config use nas1",
		Annotations:       noContext,
		ValidArgsFunction: a.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), func(f *contexts.File) error {
				if _, ok := f.Get(args[0]); !ok {
					return noSuchContext(args[0])
				}
				f.Current = args[0]
				return nil
			})
		},
	}
}

func newConfigRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"unset"},
		Short:             "Remove a context",
		Example:           "  rdmactl config remove nas1",
		Annotations:       noContext,
		ValidArgsFunction: a.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeContexts(cmd.Context(), func(f *contexts.File) error {
				if !f.Remove(args[0]) {
					return noSuchContext(args[0])
				}
				return nil
			})
		},
	}
}

// shown is the rdmad that other commands would use.
type shown struct {
	Addr string       `json:"addr"`
	TLS  contexts.TLS `json:"tls"`
	From string       `json:"from"` // --addr, context NAME, …
}

func newConfigShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Print the address that commands would use, and where it comes from",
		Example: "  rdmactl config show --context nas1",
		RunE: func(*cobra.Command, []string) error {
			l, err := a.locate()
			if err != nil {
				return err
			}
			s := shown{l.addr, l.tls.TLS, l.from}
			return a.printer().Answer(&s, func() *output.Table { return shownTable(&s) })
		},
	}
}

func shownTable(s *shown) *output.Table {
	t := output.Pairs()
	t.Row("address", s.Addr)
	t.Row("from", s.From)
	t.Row("certificate", orNone(s.TLS.Cert))
	t.Row("key", orNone(s.TLS.Key))
	t.Row("CA", orNone(s.TLS.CA))
	t.Row("server name", orNone(s.TLS.ServerName))
	return t
}

func noSuchContext(name string) error {
	return usagef("there is no context %q (rdmactl config contexts)", name)
}

// completeContext completes NAME.
func (a *app) completeContext(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.contextNames(), cobra.ShellCompDirectiveNoFileComp
}

// changeContexts changes the user's file. Other commands wait.
func (a *app) changeContexts(ctx context.Context, change func(*contexts.File) error) error {
	path, err := contexts.Path()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		defer dir.Close()
		if err := a.lock(ctx, dir); err != nil {
			return err
		}
	}
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	if err := change(file); err != nil {
		return err
	}
	text, err := configfile.EncodeYAML(file)
	if err != nil {
		return err
	}
	return replaceFile(path, text)
}

// lock locks a file, where the file system has locks. It waits no longer than for an answer: a user's
// own script may have the lock.
func (a *app) lock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	for errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		if !pause(ctx, 10*time.Millisecond) {
			return fmt.Errorf("another program has locked %s", f.Name())
		}
	}
	return nil
}
