package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newLimits(a *app) *cobra.Command {
	show := newLimitsShow(a)
	cmd := &cobra.Command{
		Use:     "limits",
		Short:   "Show and change the limits of connections and memory",
		Long:    "Show and change the limits of all listeners together, of services on TCP, of the control plane and of the metrics port. limits alone does what limits show does.",
		Example: "  rdmactl limits",
		Args:    onlyGroup,
		RunE:    show.RunE,
	}
	cmd.AddCommand(show, newLimitsSet(a), newLimitsUnset(a))
	return cmd
}

func newLimitsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "The limits in force",
		Example: "  rdmactl limits show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.GetLimits, &rdmadv1.GetLimitsRequest{},
				func(res *rdmadv1.GetLimitsResponse) *output.Table { return limitsTable(res) })
		},
	}
}

// limited is an answer with limits.
type limited interface {
	GetLimits() *rdmadv1.Limits
	GetChanged() []string
}

func limitsTable(of limited) *output.Table {
	l, t := of.GetLimits(), &output.Table{Columns: make([]output.Column, 2)}
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
	portRows(t, "control", l.GetControl())
	portRows(t, "metrics", l.GetMetrics())
	changedRow(t, of.GetChanged())
	return t
}

// portRows are the limits of one of rdmad's own ports; p is nil from an older
// rdmad.
func portRows(t *output.Table, name string, p *rdmadv1.PortLimits) {
	if p == nil {
		return
	}
	t.Row(name+" max connections", number(p.GetMaxConnections()))
	t.Row(name+" max connections per peer", number(p.GetMaxConnectionsPerPeer()))
	if p.Reserved != nil {
		t.Row(name+" reserved", number(p.GetReserved()))
	}
	t.Row(name+" idle", p.GetIdle().AsDuration().String())
}

// orNoLimit writes a limit, of which 0 is none.
func orNoLimit(n uint32) string {
	if n == 0 {
		return "no limit"
	}
	return number(n)
}

// orNever writes a time; 0 means never.
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
		Use:     "set",
		Aliases: []string{"update"},
		Short:   "Change limits",
		Long: `Change limits for new connections. Limits without a flag do not change. The changes
stand over the configuration file, also after restarts and reloads, until
"rdmactl limits unset". --tcp-idle also applies to existing connections.`,
		Example: "  rdmactl limits set --max-connections 1024 --max-connections-per-peer 32",
	}
	flags := []flagOfLimit{
		numberLimit("max-connections", "most connections; 0 for 4096", func(l *rdmadv1.Limits, n uint32) { l.MaxConnections = n }),
		numberLimit("max-connections-per-peer", "most connections from one address; 0 for 256", func(l *rdmadv1.Limits, n uint32) { l.MaxConnectionsPerPeer = n }),
		numberLimit("max-handshakes", "most connections being made at once; 0 for 256", func(l *rdmadv1.Limits, n uint32) { l.MaxHandshakes = n }),
		timeLimit("idle", "time without a call after which a connection is closed; 0 for never", func(l *rdmadv1.Limits, d *durationpb.Duration) { l.Idle = d }),
		bytesLimit("max-memory", "most memory of the process; 5/8 of it is for registered memory",
			func(l *rdmadv1.Limits, n float64) { l.MaxMemory = &n }),
		numberLimit("max-tcp-connections", "most TCP connections of services; 0 for 1024", func(l *rdmadv1.Limits, n uint32) { l.MaxTcpConnections = &n }),
		numberLimit("max-tcp-connections-per-peer", "most TCP connections of services from one address; 0 for 128",
			func(l *rdmadv1.Limits, n uint32) { l.MaxTcpConnectionsPerPeer = &n }),
		timeLimit("tcp-idle", "time without a call after which TCP connections of services and connectors are closed; 0 for 6m",
			func(l *rdmadv1.Limits, d *durationpb.Duration) { l.TcpIdle = d }),
		numberLimit("control-max-connections", "most connections to the control plane; 0 for 256", func(l *rdmadv1.Limits, n uint32) { ofControl(l).MaxConnections = &n }),
		numberLimit("control-max-connections-per-peer", "most connections to the control plane of one user, certificate or address; 0 for a quarter, at most 64",
			func(l *rdmadv1.Limits, n uint32) { ofControl(l).MaxConnectionsPerPeer = &n }),
		numberLimit("control-reserved", "connections to the control plane that are reserved for admins; 0 for a quarter, at most 32", func(l *rdmadv1.Limits, n uint32) { ofControl(l).Reserved = &n }),
		timeLimit("control-idle", "time without a request after which a connection to the control plane is closed; 0 for 5m",
			func(l *rdmadv1.Limits, d *durationpb.Duration) { ofControl(l).Idle = d }),
		numberLimit("metrics-max-connections", "most connections to the metrics port; 0 for 64", func(l *rdmadv1.Limits, n uint32) { ofMetrics(l).MaxConnections = &n }),
		numberLimit("metrics-max-connections-per-peer", "most connections to the metrics port from one address; 0 for a quarter, at most 16",
			func(l *rdmadv1.Limits, n uint32) { ofMetrics(l).MaxConnectionsPerPeer = &n }),
		timeLimit("metrics-idle", "time without a request after which a connection to the metrics port is closed; 0 for 90s",
			func(l *rdmadv1.Limits, d *durationpb.Duration) { ofMetrics(l).Idle = d }),
	}
	values := make([]func(*rdmadv1.Limits), len(flags))
	for i, f := range flags {
		values[i] = f.add(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var set []func(*rdmadv1.Limits)
		var paths []string
		for i, f := range flags {
			if cmd.Flags().Changed(f.name) {
				set, paths = append(set, values[i]), append(paths, limitField(f.name))
			}
		}
		if len(set) == 0 {
			names := make([]string, len(flags))
			for i, f := range flags {
				names[i] = f.name
			}
			slices.Sort(names)
			return usagef("%s needs one of --%s", cmd.CommandPath(), strings.Join(names, ", --"))
		}
		return a.setLimits(cmd.Context(), set, paths)
	}
	return cmd
}

// limitField is the path of a limit in Limits that has the name of a flag.
func limitField(flag string) string {
	for _, port := range []string{"control", "metrics"} {
		if rest, ok := strings.CutPrefix(flag, port+"-"); ok {
			return port + "." + strings.ReplaceAll(rest, "-", "_")
		}
	}
	return strings.ReplaceAll(flag, "-", "_")
}

func newLimitsUnset(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "unset [LIMIT...]",
		Short: "Give limits the values of the configuration file back",
		Long: `Take back what "rdmactl limits set" changed: all of it, or only the given limits. A
limit has the name of the flag that sets it. The values of the configuration file, or
the defaults, are in force at once.`,
		Example:           "  rdmactl limits unset\n  rdmactl limits unset max-connections control-idle",
		ValidArgsFunction: a.completeLimits,
		RunE: func(cmd *cobra.Command, args []string) error {
			fields := []string{"*"}
			if len(args) > 0 {
				fields = make([]string, len(args))
			}
			for i, name := range args {
				fields[i] = limitField(strings.TrimPrefix(name, "--"))
			}
			req := &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{}, Unset: fields}
			return show(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.SetLimits, req,
				func(res *rdmadv1.SetLimitsResponse) *output.Table { return limitsTable(res) })
		},
	}
}

// completeLimits completes the limits that were changed.
func (a *app) completeLimits(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	res := try(a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.GetLimits, &rdmadv1.GetLimitsRequest{})
	return flagNames(res.GetChanged()), noFiles
}

// flagOfLimit is a flag for a limit. add defines it, and gives what puts its
// value into a request.
type flagOfLimit struct {
	name string
	add  func(*cobra.Command) func(*rdmadv1.Limits)
}

func numberLimit(name, usage string, set func(*rdmadv1.Limits, uint32)) flagOfLimit {
	return flagOfLimit{name, func(cmd *cobra.Command) func(*rdmadv1.Limits) {
		n := cmd.Flags().Uint32(name, 0, usage)
		return func(l *rdmadv1.Limits) { set(l, *n) }
	}}
}

func bytesLimit(name, usage string, set func(*rdmadv1.Limits, float64)) flagOfLimit {
	return flagOfLimit{name, func(cmd *cobra.Command) func(*rdmadv1.Limits) {
		var n sizeFlag
		cmd.Flags().Var(&n, name, usage)
		return func(l *rdmadv1.Limits) { set(l, float64(n)) }
	}}
}

func timeLimit(name, usage string, set func(*rdmadv1.Limits, *durationpb.Duration)) flagOfLimit {
	return flagOfLimit{name, func(cmd *cobra.Command) func(*rdmadv1.Limits) {
		d := cmd.Flags().Duration(name, 0, usage)
		return func(l *rdmadv1.Limits) { set(l, durationpb.New(*d)) }
	}}
}

// ofControl are the limits of the control plane in a request.
func ofControl(l *rdmadv1.Limits) *rdmadv1.PortLimits {
	if l.Control == nil {
		l.Control = new(rdmadv1.PortLimits)
	}
	return l.Control
}

// ofMetrics are those of the metrics port.
func ofMetrics(l *rdmadv1.Limits) *rdmadv1.PortLimits {
	if l.Metrics == nil {
		l.Metrics = new(rdmadv1.PortLimits)
	}
	return l.Metrics
}

// setLimits changes the limits at some paths. The request has all that an older rdmad, which
// knows no paths, would change otherwise.
func (a *app) setLimits(ctx context.Context, set []func(*rdmadv1.Limits), paths []string) error {
	var res *rdmadv1.SetLimitsResponse
	err := a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		client := rdmadv1.NewListenerServiceClient(conn)
		now, err := client.GetLimits(ctx, &rdmadv1.GetLimitsRequest{})
		if err != nil {
			return err
		}
		limits := now.GetLimits()
		limits.MaxMemory, limits.MaxTcpConnections, limits.MaxTcpConnectionsPerPeer, limits.TcpIdle = nil, nil, nil, nil // stay as they are
		limits.Control, limits.Metrics = nil, nil
		for _, f := range set {
			f(limits)
		}
		res, err = client.SetLimits(ctx, &rdmadv1.SetLimitsRequest{Limits: limits, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		return err
	})
	if err != nil {
		return err
	}
	return a.printer().Answer(res, func() *output.Table { return limitsTable(res) })
}
