package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// filterFlags adds the flags that say which connections to look at.
func (a *app) filterFlags(cmd *cobra.Command) *rdmadv1.TraceFilter {
	f := &rdmadv1.TraceFilter{}
	cmd.Flags().StringSliceVar(&f.ConnectionIds, "connection", nil, "only this connection; for several use commas or repeat the flag")
	must(cmd.RegisterFlagCompletionFunc("connection", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return commaList(a.connectionIDs(""), typed), inOrder | cobra.ShellCompDirectiveNoSpace
	}))
	a.listenerFlag(cmd, &f.Listener)
	peerFlag(cmd, &f.Peer)
	return f
}

const traceHelp = `Print a line for each message on connections, and for each RDMA Read and Write
that rdmad makes: transport header, chunks, and the RPC message's program and
procedure. JSON and YAML have the complete headers. A reply has its procedure if
the trace saw the call. trace continues until you interrupt it, also after a
restart of rdmad.

With --check a referee judges each connection by the rules of docs/referee.md. A
line under an event names the rule that it broke, and the exit code is 1. Rules
that need events before the trace, or dropped ones, are silent.

rdmad drops and counts events that are not read in time; connections never wait.`

func newTrace(a *app) *cobra.Command {
	var count uint
	req := &rdmadv1.TraceRequest{}
	cmd := &cobra.Command{
		Use:         "trace",
		Short:       "Print the messages of connections, decoded",
		Long:        traceHelp,
		Example:     "  rdmactl trace --connection 3 --count 20\n  rdmactl trace --check --listener nfs",
		Annotations: streams,
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.trace(cmd.Context(), req, count) },
	}
	req.Filter = a.filterFlags(cmd)
	cmd.Flags().UintVar(&count, "count", 0, "stop after this number of events; 0 for never")
	cmd.Flags().BoolVar(&req.Check, "check", false, "judge connections, and exit with 1 if a rule was broken")
	return cmd
}

// trace prints events until it is interrupted, has had enough, or the
// connections that it was asked for have ended.
func (a *app) trace(ctx context.Context, req *rdmadv1.TraceRequest, count uint) error {
	t := tracing{app: a, count: count, req: req, printer: a.printer()}
	err := a.keep(ctx, func(conn *grpc.ClientConn, begun func()) error { return t.stream(ctx, conn, begun) })
	if err != nil && !ended(ctx, err) && !errors.Is(err, io.EOF) {
		return err
	}
	fmt.Fprintf(a.stderr, "%d events, %.0f dropped\n", t.events, t.dropped+t.dropping)
	if t.violations > 0 {
		return fmt.Errorf("%d violations", t.violations)
	}
	return nil
}

// tracing is a trace in progress, of one rdmad or, after restarts, of several.
type tracing struct {
	*app
	req        *rdmadv1.TraceRequest
	count      uint // of events, after which to stop; 0 for never
	printer    *output.Printer
	events     uint
	violations int
	// dropped events are those of earlier streams, dropping those of this one.
	dropped, dropping float64
}

// stream prints the events of one stream.
func (t *tracing) stream(ctx context.Context, conn *grpc.ClientConn, begun func()) error {
	t.dropped, t.dropping = t.dropped+t.dropping, 0
	stream, err := newAPI(conn).Trace(ctx, t.req)
	if err != nil {
		return err
	}
	// rdmad sends the header when nothing is missed from then on. An error comes
	// without it, and is the first Recv's.
	if header, err := stream.Header(); err == nil && header != nil {
		if t.req.GetCheck() && len(header.Get(rdmadv1.JudgedHeader)) == 0 {
			return errors.New("this rdmad is too old for --check: trace without it")
		}
		begun()
	}
	for ; t.count == 0 || t.events < t.count; t.events++ {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		t.dropping = e.GetDropped()
		t.violations += len(e.GetViolations())
		if err := t.traceEvent(t.printer, e); err != nil {
			return err
		}
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
		return p.Note("  connection %s is no longer judged: %s", e.GetConnectionId(), reason)
	}
	return nil
}
