package cli

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newLimits(a *app) *cobra.Command {
	return groupOf(&cobra.Command{
		Use:     "limits",
		Short:   "Show and change the limits of connections and memory",
		Long:    "Show and change the limits of all listeners together, of services on TCP, of the control\nplane and of the metrics port. limits alone does what limits show does.",
		Example: "  rdmactl limits",
	}, newLimitsShow(a), newLimitsSet(a), newLimitsUnset(a))
}

func newLimitsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "The limits in force",
		Example: "  rdmactl limits show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, api.GetLimits, &rdmadv1.GetLimitsRequest{}, limitsTable)
		},
	}
}

// limited is an answer with limits.
type limited interface {
	GetLimits() *rdmadv1.Limits
	GetChanged() []string
}

func limitsTable[R limited](of R) *output.Table {
	l, t := of.GetLimits(), output.Pairs()
	t.Row("max connections", orNoLimit(l.GetMaxConnections()))
	t.Row("max connections per peer", orNoLimit(l.GetMaxConnectionsPerPeer()))
	t.Row("max handshakes", orNoLimit(l.GetMaxHandshakes()))
	if l.Idle != nil { // not from an older rdmad
		t.Row("idle", either(l.GetIdle().AsDuration() == 0, "never closed", "closed after "+l.GetIdle().AsDuration().String()))
	}
	if l.MaxMemory != nil { // not from an older rdmad
		t.Row("max memory", output.Count(l.GetMaxMemory())+" bytes")
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
func orNoLimit(n uint32) string { return cmp.Or(number(n), "no limit") }

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
override the configuration file, also after restarts and reloads, until
"rdmactl limits unset". --tcp-idle also applies to existing connections.`,
		Example: "  rdmactl limits set --max-connections 1024 --max-connections-per-peer 32",
	}
	limits := &rdmadv1.Limits{}
	names, paths := make([]string, len(limitFlags)), make([]string, len(limitFlags))
	for i, flag := range limitFlags {
		names[i], paths[i] = flag.name, fieldOf(flag.name)
		in, fd := specproto.At(limits.ProtoReflect(), paths[i], true)
		cmd.Flags().Var(&specFlag{field: spec.Field{Type: flag.of}, in: in, fd: fd}, flag.name, flag.usage)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given, err := givenPaths(cmd, names, paths)
		if err != nil {
			return err
		}
		return a.setLimits(cmd.Context(), limits, given)
	}
	return cmd
}

var (
	aNumber = reflect.TypeFor[int]()
	aSize   = reflect.TypeFor[spec.Size]()
	aTime   = reflect.TypeFor[time.Duration]()
)

// limitFlags are the flags of limits set, by name.
var limitFlags = []struct {
	name  string
	of    reflect.Type
	usage string
}{
	{"control-idle", aTime, "time without a request after which a connection to the control plane is closed; 0 for 5m"},
	{"control-max-connections", aNumber, "most connections to the control plane; 0 for 256"},
	{"control-max-connections-per-peer", aNumber, "most connections to the control plane of one user, certificate or address; 0 for a quarter, at most 64"},
	{"control-reserved", aNumber, "connections to the control plane that are reserved for admins; 0 for a quarter, at most 32"},
	{"idle", aTime, "time without a call after which a connection is closed; 0 for never"},
	{"max-connections", aNumber, "most connections; 0 for 4096"},
	{"max-connections-per-peer", aNumber, "most connections from one address; 0 for 256"},
	{"max-handshakes", aNumber, "most connections being made at once; 0 for 256"},
	{"max-memory", aSize, "most memory of the process; 5/8 of it is for registered memory"},
	{"max-tcp-connections", aNumber, "most TCP connections of services; 0 for 1024"},
	{"max-tcp-connections-per-peer", aNumber, "most TCP connections of services from one address; 0 for 128"},
	{"metrics-idle", aTime, "time without a request after which a connection to the metrics port is closed; 0 for 90s"},
	{"metrics-max-connections", aNumber, "most connections to the metrics port; 0 for 64"},
	{"metrics-max-connections-per-peer", aNumber, "most connections to the metrics port from one address; 0 for a quarter, at most 16"},
	{"tcp-idle", aTime, "time without a call after which TCP connections of services and connectors are closed; 0 for 6m"},
}

// fieldOf is the path of the field that a flag sets. Those of rdmad's own ports, in Limits, are in a
// message of the port.
func fieldOf(flag string) string {
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
			req := &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{}, Unset: unsetFields(args)}
			return show(cmd.Context(), a, api.SetLimits, req, limitsTable)
		},
	}
}

// completeLimits completes the limits that were changed.
func (a *app) completeLimits(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	res := try(a, api.GetLimits, &rdmadv1.GetLimitsRequest{})
	return flagNames(res.GetChanged()), noFiles
}

// setLimits changes the limits at some paths to those of change. The request has all that an older rdmad, which
// knows no paths, would change otherwise.
func (a *app) setLimits(ctx context.Context, change *rdmadv1.Limits, paths []string) error {
	var res *rdmadv1.SetLimitsResponse
	err := a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		client := newAPI(conn)
		now, err := client.GetLimits(ctx, &rdmadv1.GetLimitsRequest{})
		if err != nil {
			return err
		}
		limits := now.GetLimits()
		limits.MaxMemory, limits.MaxTcpConnections, limits.MaxTcpConnectionsPerPeer, limits.TcpIdle = nil, nil, nil, nil // stay as they are
		limits.Control, limits.Metrics = nil, nil
		for _, path := range paths {
			from, fd := specproto.At(change.ProtoReflect(), path, true)
			to, _ := specproto.At(limits.ProtoReflect(), path, true)
			to.Set(fd, from.Get(fd))
		}
		res, err = client.SetLimits(ctx, &rdmadv1.SetLimitsRequest{Limits: limits, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}})
		return err
	})
	if err != nil {
		return err
	}
	return a.printer().Answer(res, func() *output.Table { return limitsTable(res) })
}
