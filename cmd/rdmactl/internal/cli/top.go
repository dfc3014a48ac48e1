package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top"
)

// Bounds of the time between samples, which are rdmad's.
const (
	leastInterval = 100 * time.Millisecond
	mostInterval  = time.Hour
)

const topHelp = `Show rdmad live in the terminal: all connections together, one line for each, and
details of one. Change settings (s) after a dry run. Drain (d) and close (x)
connections. ? lists all keys.

--fleet shows the nodes of the fleet instead, one line for each: calls and errors per second,
p99, connections, conditions that are not OK, drift, and the revision in force.`

func newTop(a *app) *cobra.Command {
	o := top.Options{
		Assign: parseAssignments,
		Values: func(name string) []string {
			k, err := findKey(name)
			if err != nil {
				return nil
			}
			return values(k)
		},
		Explain: a.explain,
		Lost:    lost,
	}
	cmd := &cobra.Command{
		Use:         "top",
		Short:       "Show rdmad live, and change settings",
		Long:        topHelp,
		Example:     "  rdmactl top\n  rdmactl top --interval 250ms --sort out --filter nfs\n  rdmactl top --fleet --sort errors",
		Annotations: oneContext,
	}
	f := cmd.Flags()
	inFleet := f.Bool("fleet", false, "show the nodes of the fleet")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*inFleet {
			return a.top(cmd, &o, top.Columns, top.Run)
		}
		if cmd.Flags().Changed("interval") {
			return usagef("--interval has no meaning with --fleet: nodes report every 5 seconds")
		}
		return a.top(cmd, &o, top.FleetColumns, top.RunFleet)
	}
	f.DurationVar(&o.Interval, "interval", time.Second, "time between samples")
	f.StringVar(&o.Sort, "sort", "calls", "column to sort by: "+strings.Join(top.Columns, ", ")+"; with --fleet: "+strings.Join(top.FleetColumns, ", "))
	f.BoolVar(&o.Reverse, "reverse", false, "reverse the order")
	f.StringVar(&o.Filter, "filter", "", "only connections whose id, listener, peer or service has this text; nodes whose name or a label does")
	must(cmd.RegisterFlagCompletionFunc("sort", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		if *inFleet {
			return top.FleetColumns, noFiles
		}
		return top.Columns, noFiles
	}))
	return cmd
}

func (a *app) top(cmd *cobra.Command, o *top.Options, columns []string, run func(context.Context, top.Options) error) error {
	const instead = "for files and scripts use rdmactl connections watch or rdmactl connections list -o json"
	if a.format != output.FormatTable {
		return usagef("top has no -o %s: %s", a.format, instead)
	}
	if o.Interval < leastInterval || o.Interval > mostInterval {
		return usagef("--interval must be from %s to %s", leastInterval, mostInterval)
	}
	if !slices.Contains(columns, o.Sort) {
		return usagef("--sort %q is not one of %s", o.Sort, strings.Join(columns, ", "))
	}
	out, ok := terminalOf(a.stdout)
	if in, inOK := terminalOf(os.Stdin); ok && inOK {
		o.In, o.Out = in, out
	} else {
		return usagef("top needs a terminal: %s", instead)
	}
	if os.Getenv("TERM") == "dumb" {
		return usagef("top needs a terminal that can move its cursor, not TERM=dumb: %s", instead)
	}
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	o.Conn, o.Addr, o.Timeout, o.Env = conn, a.addr, a.timeout, a.colourEnv(os.Environ())
	return run(cmd.Context(), *o)
}

// terminalOf is the file behind a stream, if it is a terminal.
func terminalOf(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

func isTerminal(stream any) bool {
	_, ok := terminalOf(stream)
	return ok
}

// colourEnv is an environment that says the same of colours as --color.
func (a *app) colourEnv(env []string) []string {
	switch a.colour {
	case output.ColourNever:
		return append(env, "NO_COLOR=1")
	case output.ColourAlways:
		return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") })
	}
	return env
}
