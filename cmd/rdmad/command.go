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
	"github.com/rdmad/rdmad/cmd/rdmad/internal/logwriter"
	"github.com/rdmad/rdmad/controlplane/loglevel"
	"github.com/rdmad/rdmad/dataplane/loglimit"
)

// options are the options of the command line.
type options struct {
	config    string
	export    string
	set       []string
	logFormat string
	drain     time.Duration

	// root is the root of the machine's file system.
	root string
}

func newCommand() *cobra.Command {
	o := options{root: "/"}
	root := &cobra.Command{
		Use:   "rdmad",
		Short: "Serve NFS and other ONC RPC services over RDMA, with or without RDMA hardware",
		Long: `rdmad serves RPC-over-RDMA connections. Without a configuration it exports
./export by NFSv3 over soft-iWARP on 127.0.0.1:20049, with MOUNT and NFS over TCP
on 127.0.0.1:20048, the control plane (rdmactl) on 127.0.0.1:20050 and metrics on
127.0.0.1:20051.

Values come from the defaults, then the configuration file, then environment
variables, then flags; the last one wins. The variable of the key limits.memory is
RDMAD_LIMITS_MEMORY, that of --log-level is RDMAD_LOG_LEVEL. "rdmad check" shows
where each value comes from.

At SIGTERM or SIGINT rdmad finishes the calls in flight, then ends. It ends in any
case 30 s after the time of --drain-timeout. At a second signal, 250 ms later or more,
it ends at once.`,
		Example: `  rdmad --export /srv/data
  rdmad --config /etc/rdmad/rdmad.yaml
  rdmad --config /etc/rdmad/rdmad.yaml --set limits.memory=2GiB --set metrics.listen=127.0.0.1:9000`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
		SilenceUsage:      true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level, err := o.checkStart(cmd.Flags())
			if err != nil {
				return err
			}
			c, err := o.load()
			if err != nil {
				return err
			}
			log := newLog(level, o.logFormat)
			slog.SetDefault(slog.New(log)) // for packages without a logger of their own
			defer log.Flush()
			for _, name := range c.Unknown {
				slog.Info("an environment variable names no key of the configuration", "variable", name)
			}
			return serve(c, o.load, o.drain, slog.Default(), level)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	o.startFlags(root.Flags())
	o.configFlags(root)
	root.AddCommand(o.checkCommand(), o.auditCommand(), o.stateCommand(), versionCommand())
	return root
}

func (o *options) configFlags(cmd *cobra.Command) {
	o.fileFlag(cmd)
	cmd.Flags().StringVar(&o.export, "export", "", "`DIR` to export, in place of the path of the only nfs service; without a configuration the default is ./export, which is made if missing")
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "`KEY=VALUE` of the configuration; overrides file and environment; may be repeated")
}

func (o *options) fileFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "configuration `FILE`: YAML, or TOML or JSON by its name")
}

// variableOf is the annotation of a flag with the environment variable that set it.
const variableOf = "variable"

// fromEnvironment sets flags that are not given from the environment: RDMAD_LOG_LEVEL sets
// --log-level.
func fromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := config.Variable(strings.ReplaceAll(f.Name, "-", "_"))
		text := os.Getenv(name)
		if text == "" || f.Changed || !slices.Contains(config.FlagVariables, name) {
			return
		}
		f.Annotations = map[string][]string{variableOf: {name}}
		if bad := flags.Set(f.Name, text); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
		}
	})
	return err
}

// givenBy names a flag, or the environment variable that set it.
func givenBy(f *pflag.Flag) string {
	if v := f.Annotations[variableOf]; len(v) > 0 {
		return v[0]
	}
	return "--" + f.Name
}

// Flags that only the start has.
const (
	logLevelFlag  = "log-level"
	logFormatFlag = "log-format"
	drainFlag     = "drain-timeout"
)

func (o *options) startFlags(f *pflag.FlagSet) {
	f.String(logLevelFlag, loglevel.Name(slog.LevelInfo), "least severe lines logged: debug, info, warn or error")
	f.StringVar(&o.logFormat, logFormatFlag, "text", "text or json")
	f.DurationVar(&o.drain, drainFlag, 10*time.Second, "how long calls in flight may take to finish when rdmad ends")
}

// checkStart checks these flags, and returns the log level.
func (o *options) checkStart(f *pflag.FlagSet) (*loglevel.Level, error) {
	level, err := newLevel(f.Lookup(logLevelFlag))
	if o.logFormat != "text" && o.logFormat != "json" {
		err = errors.Join(err, fmt.Errorf("%s: %q is neither text nor json", givenBy(f.Lookup(logFormatFlag)), o.logFormat))
	}
	if o.drain < 0 {
		err = errors.Join(err, fmt.Errorf("%s must not be negative", givenBy(f.Lookup(drainFlag))))
	}
	return level, err
}

// checkStartVariables checks the environment variables of these flags.
func checkStartVariables() error {
	var o options
	f := pflag.NewFlagSet("start", pflag.ContinueOnError)
	o.startFlags(f)
	if err := fromEnvironment(f); err != nil {
		return err
	}
	_, err := o.checkStart(f)
	return err
}

// load reads the configuration. Without a file it returns the default one.
func (o *options) load() (*config.Config, error) {
	return config.Load(o.config, config.Options{
		Providers: providers.Names(), Absent: providers.Absent(), Set: o.set, Export: o.export, Stored: storedListeners,
	})
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

// newLevel returns the log level that a flag or its environment variable gives.
func newLevel(f *pflag.Flag) (*loglevel.Level, error) {
	l, ok := loglevel.Parse(f.Value.String())
	if !ok {
		return nil, fmt.Errorf("%s: %q is not one of %s", givenBy(f), f.Value, strings.Join(loglevel.Names(), ", "))
	}
	s := loglevel.Setting{Level: l, Origin: loglevel.Default}
	if f.Changed {
		s.Origin = givenBy(f)
	}
	return loglevel.New(s), nil
}

// newLog returns a handler that logs to standard error, limits floods of lines, and waits for no
// reader.
func newLog(level slog.Leveler, format string) (h *loglimit.Handler) {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: asText}
	out := logwriter.New(os.Stderr, func(lines int) {
		slog.New(h).Warn("log lines were lost: nothing took them, and there was no more room", "lines", lines)
	})
	if format == "json" {
		h = loglimit.New(slog.NewJSONHandler(out, o))
	} else {
		h = loglimit.New(slog.NewTextHandler(out, o))
	}
	return h
}

// asText logs addresses of package net as text, not as structures, and times with their unit,
// in JSON too.
func asText(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case net.Addr:
		a.Value = slog.StringValue(v.String())
	case time.Duration:
		a.Value = slog.StringValue(v.String())
	}
	return a
}
