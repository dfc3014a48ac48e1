package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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

With --check a referee judges each connection by the rules of docs/referee.md.
A line under an event says which rule it broke, and the exit code is 1 if there
was one. Rules that need what came before the trace, or was dropped, are silent.

What is not read in time is dropped and counted; connections never wait.`

func newTrace(a *app) *cobra.Command {
	var f traceFilter
	var count uint
	var check bool
	cmd := &cobra.Command{
		Use:               "trace",
		Short:             "Messages on connections as they go, decoded",
		Long:              traceHelp,
		Example:           "  rdmactl trace --connection 3 --count 20\n  rdmactl trace --check --listener nfs",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.trace(cmd.Context(), &f, count, check) },
	}
	f.flags(a, cmd)
	cmd.Flags().UintVar(&count, "count", 0, "stop after so many events; 0 for never")
	cmd.Flags().BoolVar(&check, "check", false, "judge connections, and exit with 1 if a rule was broken")
	must(cmd.RegisterFlagCompletionFunc("count", cobra.NoFileCompletions))
	return cmd
}

// trace prints events until it is interrupted, has had enough, or the
// connections that it was asked for have ended.
func (a *app) trace(ctx context.Context, f *traceFilter, count uint, check bool) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := rdmadv1.NewDiagnosticsServiceClient(conn).Trace(ctx, &rdmadv1.TraceRequest{Filter: f.message(), Check: check})
	if err != nil && !ended(ctx, err) {
		return err
	}
	if check && err == nil {
		header, err := stream.Header()
		if err == nil && len(header.Get(rdmadv1.JudgedHeader)) == 0 {
			return errors.New("this rdmad is older than rdmactl and judges nothing: trace without --check")
		}
	}
	events, violations, dropped := uint(0), 0, 0.0
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
		violations += len(e.GetViolations())
		if err := a.traceEvent(p, e); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%d events, %.0f dropped\n", events, dropped)
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}

// traceEvent writes a line. It is not cut at the terminal's edge: what is
// worth knowing may be at its end.
func (a *app) traceEvent(p *output.Printer, e *rdmadv1.TraceResponse) error {
	if a.format != output.FormatTable {
		return p.Event(e, nil)
	}
	if err := p.Note("%s  %s  %s", e.GetTime().AsTime().Local().Format("15:04:05.000000"), e.GetConnectionId(), e.GetSummary()); err != nil {
		return err
	}
	for _, v := range e.GetViolations() {
		if err := p.Note("  violation  %s  %s (%s): %s", strings.ToLower(v.GetDirection().String()), v.GetRule(), v.GetSection(), v.GetMessage()); err != nil {
			return err
		}
	}
	if reason := e.GetGivenUp(); reason != "" {
		return p.Note("  connection %s is not judged any more: %s", e.GetConnectionId(), reason)
	}
	return nil
}
