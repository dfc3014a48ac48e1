package cli

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

var rootHelp = `rdmactl shows and tunes a running rdmad.

It connects to the control plane at --addr or of --context, else at RDMACTL_ADDR, else
of RDMACTL_CONTEXT, else of the current context (rdmactl config use), else of the
packaged rdmad on this machine, else at ` + defaultAddr + `. rdmactl config show prints the
address in use. ping, bench and doctor call any RPC-over-RDMA server and need no
control plane. check-capture reads a file.

--context a,b runs the command for each of several contexts. JSON and YAML are then an
object by context, null for a context without an answer. The exit code is the largest.

Exit codes: ` + exitText() + `.
JSON is the protobuf JSON of the answer. Its names do not change. Counters are
numbers. Streams have one JSON object per line.`

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:               "rdmactl",
		Short:             "Show and tune a running rdmad",
		Long:              rootHelp,
		Version:           a.versionInfo().String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.before(cmd) },
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	a.global = flags
	a.where.flags(a, root)
	flags.StringVarP(&a.format, "output", "o", output.FormatTable, "table, json or yaml")
	flags.StringVar(&a.colour, "color", output.ColourAuto, "auto, always or never; auto uses colours on a terminal without NO_COLOR")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to wait for an answer")
	must(root.RegisterFlagCompletionFunc("output", fixedValues(output.Formats...)))
	must(root.RegisterFlagCompletionFunc("color", fixedValues(output.Colourings...)))
	must(root.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions))
	root.AddCommand(newStatus(a), newConditions(a), newConnections(a), newClients(a), newSettings(a), newExtensions(a), newListeners(a), newConnectors(a), newServices(a),
		newFleet(a), newLimits(a), newExport(a), newAudit(a), newLogLevel(a), newConfig(a), newDoctor(a), newPing(a), newBench(a), newTrace(a), newSlowCalls(a), newCapture(a), newCheckCapture(a), newTop(a), newDebug(a),
		newConsole(a), newCompletion(a), newVersion(a))
	group(root)
	return root
}

// group makes a command that only holds others refuse to be run alone.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs one of: %s", cmd.CommandPath(), strings.Join(members(cmd), ", "))
		}
		return onlyGroup(cmd, args)
	}
	return cmd
}

// onlyGroup refuses the arguments of a command that takes none besides the commands that it
// holds.
func onlyGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s has no %q, only: %s", cmd.CommandPath(), args[0], strings.Join(members(cmd), ", "))
	}
	return nil
}

// members returns the names of the commands that a command holds.
func members(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			names = append(names, c.Name())
		}
	}
	return names
}

// exactly checks the number of arguments, by their names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s needs %s; see --help", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
		case len(args) > len(names):
			return usagef("%s: %q is one argument too many; see --help", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Print rdmactl's version (rdmad's is in status)",
		Example:           "  rdmactl version",
		Annotations:       noContext,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := a.versionInfo()
			if a.format != output.FormatTable {
				return a.printer().Value(&v, nil)
			}
			return a.printer().Note("rdmactl %s", v)
		},
	}
}

// versionInfo describes this program.
type versionInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionInfo() versionInfo {
	return versionInfo{a.version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

func (v versionInfo) String() string { return v.Version + " " + v.Go + " " + v.Platform }

// must is for what only a mistake in this package can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
