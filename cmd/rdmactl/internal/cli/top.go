package cli

import (
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

const topHelp = `A live view of rdmad in the terminal: what all connections do, each one in a
line, one of them in a pane. Settings are changed from it (s), after a dry run;
connections are drained (d) and closed (x). ? shows all keys.`

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
	}
	cmd := &cobra.Command{
		Use:               "top",
		Short:             "Live view, and settings changed from it",
		Long:              topHelp,
		Example:           "  rdmactl top\n  rdmactl top --interval 250ms --sort out --filter nfs",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.top(cmd, &o) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.Interval, "interval", time.Second, "time between samples")
	f.StringVar(&o.Sort, "sort", "calls", "column to sort by: "+strings.Join(top.Columns, ", "))
	f.BoolVar(&o.Reverse, "reverse", false, "the other way round")
	f.StringVar(&o.Filter, "filter", "", "only connections whose id, listener, peer or service has this text")
	must(cmd.RegisterFlagCompletionFunc("interval", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("sort", fixedValues(top.Columns...)))
	must(cmd.RegisterFlagCompletionFunc("filter", cobra.NoFileCompletions))
	return cmd
}

func (a *app) top(cmd *cobra.Command, o *top.Options) error {
	const instead = "for files and scripts there are rdmactl connections watch and rdmactl connections list -o json"
	if a.format != output.FormatTable {
		return usagef("top has no -o %s: %s", a.format, instead)
	}
	if o.Interval < leastInterval || o.Interval > mostInterval {
		return usagef("--interval must be from %s to %s", leastInterval, mostInterval)
	}
	if !slices.Contains(top.Columns, o.Sort) {
		return usagef("--sort %q is none of %s", o.Sort, strings.Join(top.Columns, ", "))
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
	return top.Run(cmd.Context(), *o)
}

// terminalOf is the file behind a stream, if it is a terminal.
func terminalOf(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
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
