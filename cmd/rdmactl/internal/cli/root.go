package cli

import (
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	must(root.RegisterFlagCompletionFunc("output", fixed(output.Formats...)))
	must(root.RegisterFlagCompletionFunc("color", fixed(output.Colourings...)))
	group(root, newStatus(a), newConditions(a), newConnections(a), newClients(a), newSettings(a), newExtensions(a), newListeners(a), newConnectors(a), newServices(a),
		newFleet(a), newLimits(a), newExport(a), newImport(a), newAudit(a), newLogLevel(a), newConfig(a), newDoctor(a), newPing(a), newBench(a), newTrace(a), newSlowCalls(a), newCapture(a), newCheckCapture(a), newTop(a), newDebug(a),
		newConsole(a), newCompletion(a), newVersion(a))
	complement(root)
	return root
}

// group gives a command others, and makes it refuse to be run alone.
func group(cmd *cobra.Command, others ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(others...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs one of: %s", cmd.CommandPath(), strings.Join(members(cmd), ", "))
		}
		return onlyGroup(cmd, args)
	}
	return cmd
}

// groupOf gives a command others. Alone it does what the first of them does.
func groupOf(cmd, first *cobra.Command, others ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(append(others, first)...)
	cmd.Args, cmd.RunE = onlyGroup, first.RunE
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

// argumentsOf returns the names of a command's arguments from its Use, such as "unset NAME
// [FIELD...]", and how many arguments it takes at least and at most.
func argumentsOf(use string) (names []string, least, most int) {
	for _, name := range strings.Fields(use)[1:] {
		if strings.HasPrefix(name, "-") { // flags follow
			break
		}
		if !strings.HasPrefix(name, "[") {
			least++
		}
		most++
		if strings.Contains(name, "…") || strings.Contains(name, "...") {
			most = math.MaxInt
		}
		names = append(names, strings.TrimSuffix(name, "…"))
	}
	return names, least, most
}

// checkArguments checks the number of arguments by the command's Use.
func checkArguments(cmd *cobra.Command, args []string) error {
	names, least, most := argumentsOf(cmd.Use)
	switch {
	case len(args) < least:
		return usagef("%s needs %s; see --help", cmd.CommandPath(), strings.Join(names[len(args):least], " and "))
	case len(args) > most:
		return usagef("%s: %q is one argument too many; see --help", cmd.CommandPath(), args[most])
	}
	return nil
}

// complement gives a command, and all below it, what most commands have: the arguments of
// their Use, and no names of files where an argument or a flag is not a file.
func complement(cmd *cobra.Command) {
	names, _, most := argumentsOf(cmd.Use)
	if cmd.Args == nil {
		cmd.Args = checkArguments
	}
	complete := cmd.ValidArgsFunction
	if complete == nil && !slices.Contains(names, "[FILE]") {
		complete = cobra.NoFileCompletions
	}
	if complete != nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) >= most {
				return nil, noFiles
			}
			return complete(cmd, args, typed)
		}
	}
	flag := func(f *pflag.Flag) {
		_, isFile := f.Annotations[cobra.BashCompFilenameExt]
		if _, known := cmd.GetFlagCompletionFunc(f.Name); !known && !isFile {
			must(cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions))
		}
	}
	cmd.Flags().VisitAll(flag)
	cmd.PersistentFlags().VisitAll(flag)
	for _, c := range cmd.Commands() {
		complement(c)
	}
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Short:       "Print rdmactl's version (rdmad's is in status)",
		Example:     "  rdmactl version",
		Annotations: noContext,
		RunE: func(*cobra.Command, []string) error {
			v := a.versionInfo()
			if a.format != output.FormatTable {
				return a.printer().Answer(&v, nil)
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
