package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/capture"
	"github.com/rdmad/rdmad/rpcrdma/referee"
)

const checkCaptureHelp = `Judge each RPC-over-RDMA connection in a pcap or pcapng file by the rules of
docs/referee.md. Print the violations by rule, and a summary of each connection.
FILE may be a capture of tcpdump, Wireshark, QEMU or rdmactl capture, with iWARP
over TCP on any port. - is standard input, which may be a pipe.

Packets missing from the capture are no violations. The output has the number of
gaps, and the reason why a connection was given up or not followed.

--vantage is the end at which the capture was taken. Without it, a message of one
side may have been on its way when the other side sent its own, and the rules
allow for that.

Exit codes: 0 no violation, 1 violations, 2 FILE cannot be read to its end.`

// vantages are where a capture may have been taken.
var vantages = map[string]referee.Vantage{
	"anywhere": referee.FromAnywhere, "client": referee.FromClient, "server": referee.FromServer,
}

var vantageNames = []string{"anywhere", "client", "server"}

func newCheckCapture(a *app) *cobra.Command {
	var vantage string
	cmd := &cobra.Command{
		Use:   "check-capture FILE",
		Short: "Find violations of the protocol in a packet capture",
		Long:  checkCaptureHelp,
		Example: "  rdmactl check-capture nfs.pcapng\n" +
			"  tcpdump -i eth0 -s 0 -w - port 20049 | rdmactl check-capture -",
		Annotations:       noContext,
		ValidArgsFunction: cobra.FixedCompletions([]string{"pcap", "pcapng"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(vantageNames, vantage) {
				return usagef("--vantage %q is not one of %s", vantage, strings.Join(vantageNames, ", "))
			}
			return a.checkCapture(cmd.Context(), args[0], capture.Options{Vantage: vantages[vantage]})
		},
	}
	cmd.Flags().StringVar(&vantage, "vantage", vantageNames[0], "end at which the capture was taken: anywhere, client or server")
	must(cmd.RegisterFlagCompletionFunc("vantage", fixed(vantageNames...)))
	return cmd
}

// checkCapture reads a file, or what comes until it is interrupted.
func (a *app) checkCapture(ctx context.Context, name string, opts capture.Options) error {
	in, size, err := openCapture(ctx, name)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil {
		return usagef("%v", err)
	}
	defer in.Close()
	progress := output.NewProgress(a.stderr)
	opts.Progress = captureProgress(progress, size, a.silent)
	report, err := capture.Check(context.WithoutCancel(ctx), untilDone(ctx, in), opts)
	progress.End()
	if ctx.Err() != nil && errors.Is(err, io.ErrUnexpectedEOF) {
		report.Truncated, err = false, nil // it was interrupted, not cut
	}
	if report == nil {
		return usagef("%s: %v", name, err)
	}
	if printed := a.printer().Answer(report, func() *output.Table { return reportTable(report) }); printed != nil {
		return printed
	}
	switch {
	case report.Violations > 0 && err != nil:
		return fmt.Errorf("%s: %d violations; %w", name, report.Violations, err)
	case report.Violations > 0:
		return fmt.Errorf("%s: %d violations", name, report.Violations)
	case err != nil:
		return usagef("%s: %v", name, err)
	}
	return nil
}

// openCapture opens a file; size is 0 if it is not known.
func openCapture(ctx context.Context, name string) (in io.ReadCloser, size int64, err error) {
	if name == dash {
		return io.NopCloser(os.Stdin), 0, nil
	}
	f, err := openInput(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return nil, 0, err
	case info.IsDir():
		f.Close()
		return nil, 0, fmt.Errorf("%s is a directory", name)
	case info.Mode().IsRegular():
		size = info.Size()
	}
	return f, size, nil
}

// untilDone reads from in until ctx is done, which is then the end: a read of
// a pipe cannot be interrupted otherwise.
func untilDone(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(onlyWriter{w}, in, make([]byte, 256<<10))
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(io.EOF) })
	return r
}

// onlyWriter hides other methods, so that the buffer is used.
type onlyWriter struct{ io.Writer }

// captureProgress draws how much of the file has been read, when reading takes
// longer than silent.
func captureProgress(p *output.Progress, size int64, silent time.Duration) func(packets, bytes uint64) {
	if !p.Shown() {
		return nil
	}
	next := time.Now().Add(silent)
	return func(packets, bytes uint64) {
		if packets%256 != 0 && size > 0 {
			return
		}
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(redraw)
		text := fmt.Sprintf("%d packets, %d bytes", packets, bytes)
		if size > 0 {
			p.Draw(float64(bytes)/float64(size), text)
		} else {
			p.Text(text)
		}
	}
}

// reportTable is the connections, their violations, and what they did.
func reportTable(r *capture.Report) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "PEER"}, {Name: "SERVER"}, {Name: "VERSION", Right: true}, {Name: "CALLS", Right: true}, {Name: "VIOLATIONS", Right: true},
		{Name: "GAPS", Right: true}, {Name: "FOLLOWED", Min: 10},
	}}
	for _, c := range r.Connections {
		followed := output.Cell{Text: "yes"}
		if c.GivenUp != "" {
			followed = output.Cell{Text: "given up: " + c.GivenUp, Colour: output.Yellow}
		}
		t.Cells(output.Cell{Text: c.Peer}, output.Cell{Text: c.Server}, output.Cell{Text: orNone(number(c.RPCVersion))}, output.Cell{Text: fmt.Sprint(c.Calls)},
			output.Cell{Text: fmt.Sprint(c.ViolationsFound), Colour: either(c.ViolationsFound > 0, output.Red, output.Plain)}, output.Cell{Text: fmt.Sprint(c.Gaps)}, followed)
	}
	for _, n := range r.NotFollowed {
		t.Cells(output.Cell{Text: n.Client}, output.Cell{Text: n.Server}, output.Cell{Text: "-"}, output.Cell{Text: "-"}, output.Cell{Text: "-"},
			output.Cell{Text: "-"}, output.Cell{Text: "no: " + n.Reason, Colour: output.Yellow})
	}
	last := t
	for _, next := range []*output.Table{violationsTable(r), didTable(r), restTable(r)} {
		if next != nil {
			last.Next = next
			last = next
		}
	}
	return t
}

// violationsTable lists the violations, nil when there are none.
func violationsTable(r *capture.Report) *output.Table {
	t := &output.Table{Whole: true, Columns: []output.Column{
		{Name: "PEER"}, {Name: "FRAME", Right: true}, {Name: "DIRECTION"}, {Name: "RULE"}, {Name: "SECTION"}, {Name: "MESSAGE"},
	}}
	n := 0
	for _, c := range r.Connections {
		for i := range c.Violations {
			v := &c.Violations[i]
			t.Row(c.Peer, fmt.Sprint(v.Frame), v.Direction, v.Rule, v.Section, v.Message)
			n++
		}
		if more := c.ViolationsFound - uint64(len(c.Violations)); more > 0 {
			t.Row(c.Peer, "", "", "", "", fmt.Sprintf("and %d more", more))
		}
	}
	if n == 0 {
		return nil
	}
	return t
}

// didTable is what the connections did, nil when there are none.
func didTable(r *capture.Report) *output.Table {
	if len(r.Connections) == 0 {
		return nil
	}
	t := &output.Table{Columns: []output.Column{
		{Name: "PEER"}, {Name: "INLINE", Right: true}, {Name: "CREDITS", Right: true}, {Name: "SENDS/CALL", Right: true}, {Name: "READS/CALL", Right: true},
		{Name: "WRITES/CALL", Right: true}, {Name: "REGISTRATIONS/CALL", Right: true}, {Name: "REVERSE", Right: true, Drop: 1}, {Name: "INLINE WOULD DO", Min: 10, Drop: 2},
	}}
	for _, c := range r.Connections {
		inline := "-"
		if c.ToServer > 0 {
			inline = fmt.Sprintf("%d/%d", c.ToServer, c.ToClient)
		}
		var would []string
		for _, s := range c.Savings {
			would = append(would, fmt.Sprintf("%d: %d calls", s.Inline, s.Calls))
		}
		t.Row(c.Peer, inline, fmt.Sprintf("%d of %d", c.Credits.Used, c.Credits.Granted), perCall(c.PerCall.Sends), perCall(c.PerCall.RDMAReads),
			perCall(c.PerCall.RDMAWrites), perCall(c.PerCall.Registrations), fmt.Sprint(c.ReverseCalls), strings.Join(would, ", "))
	}
	return t
}

func perCall(n float64) string { return fmt.Sprintf("%.2f", n) }

// restTable is what else there is to know of the file, nil when that is
// nothing.
func restTable(r *capture.Report) *output.Table {
	t := output.Pairs()
	n := 0
	for _, row := range []struct {
		name  string
		count uint64
	}{
		{"packets that the capture reports as dropped", r.Dropped},
		{"other TCP connections", r.OtherFlows},
		{"connections that are not listed", r.NotListed},
	} {
		if row.count > 0 {
			t.Row(row.name, fmt.Sprint(row.count))
			n++
		}
	}
	if len(r.Connections)+len(r.NotFollowed) == 0 {
		t.Row("packets", fmt.Sprint(r.Packets))
		t.Row("RPC-over-RDMA connections", "none found")
		n++
	}
	if n == 0 {
		return nil
	}
	return t
}
