package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/loglimit"
)

// options are the command line's.
type options struct {
	config    string
	export    string
	set       []string
	logLevel  string
	logFormat string
	drain     time.Duration

	// root is where the machine's files are.
	root string
}

func newCommand() *cobra.Command {
	o := options{root: "/"}
	root := &cobra.Command{
		Use:   "rdmad",
		Short: "Serve RPC-over-RDMA: NFS and other ONC RPC services, on machines with and without RDMA hardware",
		Long: `rdmad serves RPC-over-RDMA connections. Without a configuration it exports
./export by NFSv3 over soft-iWARP on 127.0.0.1:20049, with MOUNT and NFS over TCP
on 127.0.0.1:20048, the control plane (rdmactl) on 127.0.0.1:20050 and metrics on
127.0.0.1:20051.

Values come from the defaults, then the configuration file, then environment
variables, then flags; the last one wins. The variable of the key limits.memory is
RDMAD_LIMITS_MEMORY, that of --log-level is RDMAD_LOG_LEVEL. "rdmad check" shows
where each value comes from.

SIGTERM and SIGINT let calls in flight finish first; a second one ends at once.`,
		Example: `  rdmad --export /srv/data
  rdmad --config /etc/rdmad.yaml
  rdmad --config /etc/rdmad.yaml --set limits.memory=2GiB --set metrics.listen=127.0.0.1:9000`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,

		PersistentPreRunE: fromEnvironment,
		SilenceUsage:      true,
		RunE: func(*cobra.Command, []string) error {
			log, err := newLog(o.logLevel, o.logFormat)
			if err != nil {
				return err
			}
			if o.drain < 0 {
				return errors.New("--drain-timeout must not be negative")
			}
			c, err := o.load()
			if err != nil {
				return err
			}
			slog.SetDefault(slog.New(log)) // packages without a logger of their own
			defer log.Flush()
			for _, name := range c.Unknown {
				slog.Info("an environment variable names no key of the configuration", "variable", name)
			}
			return serve(c, o.load, o.drain, slog.Default())
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	f := root.Flags()
	f.StringVar(&o.logLevel, "log-level", "info", "least severe lines logged: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.DurationVar(&o.drain, "drain-timeout", 10*time.Second, "how long calls in flight may take to finish when rdmad ends")
	o.configFlags(root)
	root.AddCommand(o.checkCommand(), o.auditCommand(), o.stateCommand(), versionCommand())
	return root
}

func (o *options) configFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "configuration `FILE`: YAML, or TOML or JSON by its name")
	cmd.Flags().StringVar(&o.export, "export", "", "`DIR` that the nfs service exports (default ./export), made if missing")
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "set a key of the configuration over file and environment, as `KEY=VALUE`; may be repeated")
}

// fromEnvironment sets the flags that are not given from the environment:
// RDMAD_LOG_LEVEL is --log-level.
func fromEnvironment(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := config.Variable(strings.ReplaceAll(f.Name, "-", "_"))
		text := os.Getenv(name)
		if text == "" || f.Changed || !slices.Contains(config.FlagVariables, name) {
			return
		}
		if bad := cmd.Flags().Set(f.Name, text); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
		}
	})
	return err
}

// load reads the configuration, or makes the one in force without a file.
func (o *options) load() (*config.Config, error) {
	return config.Load(o.config, config.Options{Providers: providers.Names(), Absent: providers.Absent(), Set: o.set, Export: o.export})
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the verbs providers in it and the machine's RDMA devices",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}

// newLog logs to standard error, and holds floods of lines back.
func newLog(level, format string) (*loglimit.Handler, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil || strings.ContainsAny(level, "+-") {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", level)
	}
	o := &slog.HandlerOptions{Level: l, ReplaceAttr: addressAsText}
	switch format {
	case "text":
		return loglimit.New(slog.NewTextHandler(os.Stderr, o)), nil
	case "json":
		return loglimit.New(slog.NewJSONHandler(os.Stderr, o)), nil
	}
	return nil, fmt.Errorf("--log-format: %q is neither text nor json", format)
}

// addressAsText writes the net package's addresses as everybody else does,
// not as the fields of a structure.
func addressAsText(_ []string, a slog.Attr) slog.Attr {
	if addr, ok := a.Value.Any().(net.Addr); ok {
		a.Value = slog.StringValue(addr.String())
	}
	return a
}
