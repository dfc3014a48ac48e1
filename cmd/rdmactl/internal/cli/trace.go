package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// traceFilter are the flags that say which connections to look at.
type traceFilter struct {
	connections    []string
	listener, peer string
}

func (f *traceFilter) flags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.connections, "connection", nil, "only this connection; several with commas, or given again")
	flags.StringVar(&f.listener, "listener", "", "only connections of this listener")
	flags.StringVar(&f.peer, "peer", "", "only peers within this address or CIDR")
	must(cmd.RegisterFlagCompletionFunc("connection", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return commaList(a.connectionIDs(""), typed), inOrder | cobra.ShellCompDirectiveNoSpace
	}))
	must(cmd.RegisterFlagCompletionFunc("listener", a.completeListenerFlag))
	must(cmd.RegisterFlagCompletionFunc("peer", cobra.NoFileCompletions))
}

func (f *traceFilter) message() *rdmadv1.TraceFilter {
	return &rdmadv1.TraceFilter{ConnectionIds: f.connections, Listener: f.listener, Peer: f.peer}
}

const traceHelp = `Print a line for each message that goes over connections, and for each RDMA
Read and Write that rdmad makes, until interrupted: transport header, chunks,
and the RPC message's program and procedure. JSON and YAML have the headers
whole. A reply's procedure is known if its call was seen.

What is not read in time is dropped and counted; connections never wait.`

func newTrace(a *app) *cobra.Command {
	var f traceFilter
	var count uint
	cmd := &cobra.Command{
		Use:               "trace",
		Short:             "Messages on connections as they go, decoded",
		Long:              traceHelp,
		Example:           "  rdmactl trace --connection 3 --count 20",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.trace(cmd.Context(), &f, count) },
	}
	f.flags(a, cmd)
	cmd.Flags().UintVar(&count, "count", 0, "stop after so many events; 0 for never")
	must(cmd.RegisterFlagCompletionFunc("count", cobra.NoFileCompletions))
	return cmd
}

// trace prints events until it is interrupted, has had enough, or the
// connections that it was asked for have ended.
func (a *app) trace(ctx context.Context, f *traceFilter, count uint) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := rdmadv1.NewDiagnosticsServiceClient(conn).Trace(ctx, &rdmadv1.TraceRequest{Filter: f.message()})
	if err != nil && !ended(ctx, err) {
		return err
	}
	events, dropped := uint(0), 0.0
	for p := a.printer(); err == nil && (count == 0 || events < count); events++ {
		var e *rdmadv1.TraceResponse
		e, err = stream.Recv()
		if ended(ctx, err) || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		dropped = e.GetDropped()
		if err := a.traceEvent(p, e); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%d events, %.0f dropped\n", events, dropped)
	return nil
}

// traceEvent writes a line. It is not cut at the terminal's edge: what is
// worth knowing may be at its end.
func (a *app) traceEvent(p *output.Printer, e *rdmadv1.TraceResponse) error {
	if a.format != output.FormatTable {
		return p.Event(e, nil)
	}
	return p.Note("%s  %s  %s", e.GetTime().AsTime().Local().Format("15:04:05.000000"), e.GetConnectionId(), e.GetSummary())
}
