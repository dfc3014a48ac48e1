package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/loglevel"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newLogLevel(a *app) *cobra.Command {
	return groupOf(&cobra.Command{
		Use:     "log-level",
		Short:   "Show and change the level of rdmad's log",
		Long:    "Show and change the level of the log of rdmad while it runs. log-level alone does\nwhat log-level get does.",
		Example: "  rdmactl log-level",
	}, newLogLevelGet(a), newLogLevelSet(a))
}

func newLogLevelGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "get",
		Short:   "The log level and its origin",
		Example: "  rdmactl log-level get",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, api.GetLogLevel, &rdmadv1.GetLogLevelRequest{}, logLevelTable)
		},
	}
}

func newLogLevelSet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set LEVEL",
		Short: "Change the log level until rdmad ends",
		Long: `Change the level of the least severe lines that rdmad logs: debug, info, warn or
error. The change ends with rdmad: at its next start the level is that of
--log-level. You need the role admin.`,
		Example:           "  rdmactl log-level set debug",
		ValidArgsFunction: fixed(loglevel.Names()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			level := rdmadv1.LogLevel_Level(rdmadv1.LogLevel_Level_value[strings.ToUpper(args[0])])
			if level == rdmadv1.LogLevel_LEVEL_UNSPECIFIED {
				return usagef("%q is not one of %s", args[0], strings.Join(loglevel.Names(), ", "))
			}
			return show(cmd.Context(), a, api.SetLogLevel, &rdmadv1.SetLogLevelRequest{Level: level}, logLevelTable)
		},
	}
}

func logLevelTable[R interface{ GetLogLevel() *rdmadv1.LogLevel }](res R) *output.Table {
	l, t := res.GetLogLevel(), output.Pairs()
	t.Row("level", strings.ToLower(l.GetLevel().String()))
	t.Row("from", l.GetOrigin())
	return t
}
