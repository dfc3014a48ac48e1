package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/provenance"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/spec"
)

func (o *options) checkCommand() *cobra.Command {
	var f format
	var offline bool
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration, and print where each value comes from",
		Long: `check reads a configuration as rdmad does. It prints every mistake with its line. If
there is none, it prints every value and where it comes from: the built-in default, a
line of the file, an environment variable, a flag, or a change of a live setting or a
limit that operators stored in the state directory. It does not show the services,
listeners and connectors that operators added, changed or removed: rdmactl export does.

check also opens what the configuration names: exports must be directories that
can be read, and whose file systems answer within 5 seconds, certificates must load,
addresses must be free, the state directory must be writable or possible to make,
with 32 MiB free. --offline leaves this out, for a check on another machine. While an
rdmad uses the state directory, addresses in use are no mistake.

check warns of stored changes that are out of range: rdmad leaves these out. It
warns if an export with require_mountpoint waits for its file system, and if its
control group allows less memory than limits.memory. It lists limits that need more
file descriptors than a process may have here. It changes nothing, and works while
rdmad runs.

Exit codes: 0 no mistake, 2 a mistake.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.config == "" {
				return errors.New("check needs --config FILE")
			}
			if err := f.checkFormat(); err != nil {
				return err
			}
			if err := checkStartVariables(); err != nil {
				return err
			}
			c, err := o.load()
			var mistakes configfile.Errors
			if errors.As(err, &mistakes) && c != nil && !offline {
				return tryOpening(cmd.Context(), c, mistakes)
			}
			if err != nil {
				return err
			}
			for _, name := range c.Unknown {
				cmd.PrintErrln("rdmad: warning:", name, "is an environment variable that names no key of the configuration")
			}
			if !offline {
				if err := tryOpening(cmd.Context(), c, nil); err != nil {
					return err
				}
				for _, line := range unmounted(c) {
					cmd.PrintErrln("rdmad: warning:", line)
				}
			}
			for _, text := range storedWarnings(c.State.Path) {
				cmd.PrintErrln("rdmad: warning: stored at runtime, and left out at the start:", text)
			}
			given := c.Values()
			c, changed, err := storedProblems(c)
			if err != nil {
				return err
			}
			limit := procmem.Expected(o.root, int64(c.Limits.Memory), dataplane.DefaultMemory, dataplane.MinMemory)
			if err := checkMemory(c, limit, changed, offline); err != nil {
				return err
			}
			report, err := provenance.Make(c, settingsFile(c.State.Path))
			if err != nil {
				return err
			}
			report.Stored("limits", changed, given, (&state{path: c.State.Path}).listeners())
			report.Memory = provenance.Memory{Limit: limit.Bytes, Source: limit.Source, Asked: limit.Asked, Warning: limit.Warning()}
			if limit.Lowered() {
				cmd.PrintErrln("rdmad: warning:", limit.Warning())
			}
			budget, err := divide(c)
			var few *descriptors.TooFewError
			switch {
			case errors.As(err, &few): // the service may have a higher limit
				report.Unreachable = append(report.Unreachable, few.Error())
			case err != nil:
				return err
			}
			report.Unreachable = append(report.Unreachable, budget.Unreachable...)
			return f.print(cmd.OutOrStdout(), report, report.Table)
		},
	}
	f.formatFlag(cmd)
	cmd.Flags().BoolVar(&offline, "offline", false, "do not open the exports, certificates and addresses of the configuration")
	o.configFlags(cmd)
	return cmd
}

// checkMemory returns an error if a limit of the memory is too small for the listeners of a configuration.
// limits are the stored ones.
func checkMemory(c *config.Config, limit procmem.Limit, limits spec.Delta, offline bool) error {
	if offline { // the machine may have another control group
		limit.Bytes = limit.Asked
	}
	changed, err := storedChanges(c.State.Path)
	if err != nil {
		return err
	}
	_, stored := limits["memory"]
	if few := memoryMistake(c, checkListeners(listening(c, &changed), &limit), stored); few != nil {
		return few
	}
	return nil
}
