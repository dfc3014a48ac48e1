package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newLimits(a *app) *cobra.Command {
	show := newLimitsShow(a)
	cmd := &cobra.Command{
		Use:     "limits",
		Short:   "How many connections all listeners together take, and services on TCP",
		Long:    "How many connections all listeners together take, and services on TCP: limits alone is limits show.",
		Example: "  rdmactl limits",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s has no %q, only: set, show", cmd.CommandPath(), args[0])
			}
			return nil
		},
		RunE: show.RunE,
	}
	cmd.AddCommand(show, newLimitsSet(a))
	return cmd
}

func newLimitsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "show",
		Short:             "The limits in force",
		Example:           "  rdmactl limits show",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := ask(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.GetLimits, &rdmadv1.GetLimitsRequest{})
			if err != nil {
				return err
			}
			return a.printer().Answer(res, func() *output.Table { return limitsTable(res.GetLimits()) })
		},
	}
}

func limitsTable(l *rdmadv1.Limits) *output.Table {
	t := &output.Table{Columns: make([]output.Column, 2)}
	t.Row("max connections", orNoLimit(l.GetMaxConnections()))
	t.Row("max connections per peer", orNoLimit(l.GetMaxConnectionsPerPeer()))
	t.Row("max handshakes", orNoLimit(l.GetMaxHandshakes()))
	if l.Idle != nil { // not from an older rdmad
		t.Row("idle", orNever(l.GetIdle().AsDuration()))
	}
	if l.MaxMemory != nil { // not from an older rdmad
		t.Row("max memory", count(l.GetMaxMemory())+" bytes")
	}
	if l.MaxTcpConnections != nil { // nor this
		t.Row("max TCP connections", orNoLimit(l.GetMaxTcpConnections()))
		t.Row("max TCP connections per peer", orNoLimit(l.GetMaxTcpConnectionsPerPeer()))
		t.Row("TCP idle", l.GetTcpIdle().AsDuration().String())
	}
	return t
}

// orNoLimit writes a limit, of which 0 is none.
func orNoLimit(n uint32) string {
	if n == 0 {
		return "no limit"
	}
	return number(n)
}

// orNever writes a time, of which 0 is never.
func orNever(d time.Duration) string {
	if d == 0 {
		return "never closed"
	}
	return "closed after " + d.String()
}

// orWords writes a list, or something else for none.
func orWords(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

func newLimitsSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change the limits until the next start or reload",
		Long: `Change the limits, for connections to come, until the next start or reload of
the configuration file; what isn't given stays as it is. --tcp-idle holds for
connections that are up, too.`,
		Example:           "  rdmactl limits set --max-connections 1024 --max-connections-per-peer 32",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var want rdmadv1.Limits
	flags := []struct {
		name, usage string
		value       *uint32
		field       func(*rdmadv1.Limits) *uint32
	}{
		{"max-connections", "most connections; 0 for 4096", &want.MaxConnections, func(l *rdmadv1.Limits) *uint32 { return &l.MaxConnections }},
		{"max-connections-per-peer", "most connections from one address; 0 for 256", &want.MaxConnectionsPerPeer, func(l *rdmadv1.Limits) *uint32 { return &l.MaxConnectionsPerPeer }},
		{"max-handshakes", "most connections being made at once; 0 for 256", &want.MaxHandshakes, func(l *rdmadv1.Limits) *uint32 { return &l.MaxHandshakes }},
	}
	optional := []struct {
		name, usage string
		value       uint32
		field       func(*rdmadv1.Limits) **uint32
	}{
		{"max-tcp-connections", "most TCP connections of services; 0 for 1024", 0, func(l *rdmadv1.Limits) **uint32 { return &l.MaxTcpConnections }},
		{"max-tcp-connections-per-peer", "most TCP connections of services from one address; 0 for 128", 0, func(l *rdmadv1.Limits) **uint32 { return &l.MaxTcpConnectionsPerPeer }},
	}
	names := append(make([]string, 0, 3+len(flags)+len(optional)), "max-memory", "tcp-idle", "idle")
	tcpIdle := cmd.Flags().Duration("tcp-idle", 0, "how long TCP connections of services and clients of connectors may make no call; 0 for 6m")
	for i := range optional {
		f := &optional[i]
		cmd.Flags().Uint32Var(&f.value, f.name, 0, f.usage)
		names = append(names, f.name)
	}
	memory := cmd.Flags().Uint64("max-memory", 0, "most memory of the process, in bytes; 5/8 of it is for registered memory")
	idle := cmd.Flags().Duration("idle", 0, "time without a call after which a connection is closed; 0 for never")
	for _, f := range flags {
		cmd.Flags().Uint32Var(f.value, f.name, 0, f.usage)
		names = append(names, f.name)
	}
	for _, name := range names {
		must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var set []func(*rdmadv1.Limits)
		for _, f := range flags {
			if cmd.Flags().Changed(f.name) {
				set = append(set, func(l *rdmadv1.Limits) { *f.field(l) = *f.value })
			}
		}
		for i := range optional {
			if f := &optional[i]; cmd.Flags().Changed(f.name) {
				set = append(set, func(l *rdmadv1.Limits) { *f.field(l) = &f.value })
			}
		}
		if cmd.Flags().Changed("tcp-idle") {
			set = append(set, func(l *rdmadv1.Limits) { l.TcpIdle = durationpb.New(*tcpIdle) })
		}
		if cmd.Flags().Changed("max-memory") {
			set = append(set, func(l *rdmadv1.Limits) { l.MaxMemory = proto.Float64(float64(*memory)) })
		}
		if cmd.Flags().Changed("idle") {
			set = append(set, func(l *rdmadv1.Limits) { l.Idle = durationpb.New(*idle) })
		}
		if len(set) == 0 {
			slices.Sort(names)
			return usagef("%s needs one of --%s", cmd.CommandPath(), strings.Join(names, ", --"))
		}
		return a.setLimits(cmd.Context(), set)
	}
	return cmd
}

// setLimits changes some of the limits; a request has them all.
func (a *app) setLimits(ctx context.Context, set []func(*rdmadv1.Limits)) error {
	var res *rdmadv1.SetLimitsResponse
	err := a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		client := rdmadv1.NewListenerServiceClient(conn)
		now, err := client.GetLimits(ctx, &rdmadv1.GetLimitsRequest{})
		if err != nil {
			return err
		}
		limits := now.GetLimits()
		limits.MaxMemory, limits.MaxTcpConnections, limits.MaxTcpConnectionsPerPeer, limits.TcpIdle = nil, nil, nil, nil // stay as they are
		for _, f := range set {
			f(limits)
		}
		res, err = client.SetLimits(ctx, &rdmadv1.SetLimitsRequest{Limits: limits})
		return err
	})
	if err != nil {
		return err
	}
	return a.printer().Answer(res, func() *output.Table { return limitsTable(res.GetLimits()) })
}
