package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// offline holds the flags of the commands on the state directory.
type offline struct {
	*options
	format
	scope string
}

func (o *options) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show, check and edit rdmad's stored state while it is stopped",
		Long: `state works on the state directory, ./rdmad.state without a configuration. rdmad must
not run. While it runs, use rdmactl settings, rdmad check and rdmad audit verify.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("state needs a command: state show, state check or state unset")
		},
	}
	s := &offline{options: o}
	cmd.AddCommand(s.showCommand(), s.checkCommand(), s.unsetCommand())
	return cmd
}

// command adds the common flags. While run runs, no rdmad can use the state.
func (o *offline) command(cmd *cobra.Command, run func(*cobra.Command, *state, []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.checkFormat(); err != nil {
			return err
		}
		c, err := o.load()
		if err != nil {
			return err
		}
		if _, err := os.Stat(c.State.Path); err != nil {
			return fmt.Errorf("state.path: %w", err)
		}
		s, err := openState(c.State.Path)
		if errors.As(err, new(*inUseError)) {
			return fmt.Errorf("%w: stop it first, or use rdmactl settings", err)
		} else if err != nil {
			return err
		}
		defer s.close()
		return run(cmd, s, args)
	}
	o.fileFlag(cmd)
	o.formatFlag(cmd)
	return cmd
}

// format is the output of a command: table or json.
type format struct{ output string }

func (f *format) formatFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	complete(cmd, "output", "table", "json")
}

func (f *format) checkFormat() error {
	if f.output != "table" && f.output != "json" {
		return fmt.Errorf("--output: %q is neither table nor json", f.output)
	}
	return nil
}

// complete sets the completions of a flag's value. The only possible error is that the flag does
// not exist.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// print writes v as JSON for scripts, or calls table to write it for people.
func (f *format) print(w io.Writer, v any, table func(io.Writer) error) error {
	if f.output == "table" {
		return table(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (o *offline) showCommand() *cobra.Command {
	return o.command(&cobra.Command{
		Use:   "show [--config FILE]",
		Short: "Show the stored settings of each scope, and the history",
		Args:  cobra.NoArgs,
		Example: `  rdmad state show --config /etc/rdmad/rdmad.yaml
  rdmad state show -o json | jq '.history[-1]'`,
	}, func(cmd *cobra.Command, s *state, _ []string) error {
		r, err := s.show()
		if err != nil {
			return err
		}
		return o.print(cmd.OutOrStdout(), r, r.table)
	})
}

func (o *offline) checkCommand() *cobra.Command {
	return o.command(&cobra.Command{
		Use:   "check [--config FILE]",
		Short: "Check that rdmad can start with its stored state",
		Long: `check reads the files of settings, listeners and connectors in the state directory. It reports
for each whether it is complete, and whether this rdmad accepts its content. It changes nothing.
For the audit log use rdmad audit verify.

Exit codes: 0 no fault, 1 a fault, 2 the state cannot be read.`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, s *state, _ []string) error {
		r := s.check()
		if err := o.print(cmd.OutOrStdout(), r, r.table); err != nil {
			return err
		}
		return r.problem()
	})
}

func (o *offline) unsetCommand() *cobra.Command {
	var comment string
	cmd := &cobra.Command{
		Use:   "unset KEY... [--scope S] [--config FILE]",
		Short: "Remove stored settings",
		Long: `unset removes settings of a scope. Use it for settings with which rdmad does not start, or accepts no
connection. The name of a group, such as credits, removes all its keys. unset makes a revision, which
rdmactl settings rollback can undo. Then the value of the configuration file, or of a wider scope, is in force.`,
		Example: `  rdmad state unset credits.max --config /etc/rdmad/rdmad.yaml
  rdmad state unset inline extensions.v2 --scope peer/192.0.2.0/24`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for k := range live.NumKeys {
				names = append(names, k.String())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.command(cmd, func(cmd *cobra.Command, s *state, args []string) error {
		e := &history.Entry{Comment: comment, Actor: history.Actor{Name: "somebody", From: "rdmad state unset"}}
		if u, err := user.Current(); err == nil {
			e.Actor.Name = u.Username
		}
		var err error
		if e.Scope, err = settings.ParseScope(o.scope); err != nil {
			return fmt.Errorf("--scope: %w", err)
		}
		for _, name := range args {
			keys := live.Match(name)
			if keys == 0 {
				return fmt.Errorf("%s: there is no such setting", name)
			}
			e.Unset |= keys
		}
		doubt, err := s.unset(e)
		if err != nil {
			return err
		}
		if doubt != nil {
			cmd.PrintErrln("rdmad: warning: rdmad does not start yet:", doubt)
		}
		return o.print(cmd.OutOrStdout(), e, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "revision %d: unset %s at %s\n", e.Revision, e.Unset, e.Scope)
			return err
		})
	})
	cmd.Flags().StringVar(&o.scope, "scope", "global", "global, listener/NAME or peer/CIDR")
	cmd.Flags().StringVar(&comment, "comment", "", "reason of the change, for the history")
	complete(cmd, "scope", "global", "listener/", "peer/")
	return cmd
}
