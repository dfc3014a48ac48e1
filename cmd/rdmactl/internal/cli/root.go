package cli

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

const rootHelp = `rdmactl shows and tunes a running rdmad.

It talks to the control plane at --addr, else RDMACTL_ADDR, else ` + defaultAddr + `.
ping, bench and doctor need no rdmad: they call any RPC-over-RDMA server themselves.
check-capture reads a file.

Exit codes: 0 done, 1 rdmad refused or is not reachable, 2 wrong usage.
JSON is the protobuf JSON of the answer; its names stay as they are. Counters
are numbers. Streams write one JSON object a line.`

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:               "rdmactl",
		Short:             "Show and tune a running rdmad",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.check() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see %s --help", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.addr, "addr", addrFromEnv(), "control plane: host:port or unix:///path")
	flags.StringVarP(&a.format, "output", "o", output.FormatTable, "table, json or yaml")
	flags.StringVar(&a.colour, "color", output.ColourAuto, "auto, always or never; auto is on a terminal without NO_COLOR")
	flags.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long to wait for an answer")
	a.tls.flags(root)
	must(root.RegisterFlagCompletionFunc("output", fixedValues(output.Formats...)))
	must(root.RegisterFlagCompletionFunc("color", fixedValues(output.Colourings...)))
	must(root.RegisterFlagCompletionFunc("addr", cobra.NoFileCompletions))
	must(root.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions))
	root.AddCommand(newStatus(a), newConnections(a), newSettings(a), newExtensions(a), newListeners(a), newConnectors(a), newServices(a),
		newLimits(a), newAudit(a), newDoctor(a), newPing(a), newBench(a), newTrace(a), newCapture(a), newCheckCapture(a), newTop(a), newCompletion(a), newVersion(a))
	group(root)
	return root
}

func addrFromEnv() string {
	if addr := os.Getenv("RDMACTL_ADDR"); addr != "" {
		return addr
	}
	return defaultAddr
}

// group makes a command that only holds others refuse to be run alone.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() && c.Name() != "help" {
				names = append(names, c.Name())
			}
		}
		if len(args) == 0 {
			return usagef("%s needs one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
		}
		return usagef("%s has no %q, only: %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
	}
	return cmd
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
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "rdmactl %s %s %s/%s\n", a.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// must is for what only a mistake in this package can make fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
