package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const captureHelp = `Write the messages and RDMA operations of connections to a pcapng file, until you
interrupt it, also after a restart of rdmad. Like tcpdump, it overwrites FILE.
rdmad makes iWARP packets from the events that it sees, on every provider.
Wireshark decodes them. So does tshark -2: its second pass puts RDMA Writes back
into replies.

rdmad drops and counts events that are not read in time; connections never wait.
With --snap 4096 the file usually has complete messages without bulk data, so
decoders miss the data of READ replies and WRITE calls.`

// captureFlags are what to write, where to, and how much.
type captureFlags struct {
	req      rdmadv1.CaptureRequest
	file     string
	count    uint64
	duration time.Duration
}

func newCapture(a *app) *cobra.Command {
	var f captureFlags
	cmd := &cobra.Command{
		Use:         "capture -w FILE",
		Short:       "Write the traffic of connections to a pcapng file",
		Long:        captureHelp,
		Example:     "  rdmactl capture -w nfs.pcapng --duration 10s\n  rdmactl capture -w - --connection 3 | tshark -r -",
		Annotations: oneContext,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(a); err != nil {
				return err
			}
			return a.capture(cmd.Context(), &f)
		},
	}
	f.req.Filter = a.filterFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "write", "w", "", "file to write or overwrite; - for standard output")
	flags.Uint32Var(&f.req.SnapLength, "snap", 0, "bytes to keep of each message and RDMA operation; 0 for all")
	flags.Uint64Var(&f.count, "count", 0, "stop after this number of packets; 0 for never")
	flags.DurationVar(&f.duration, "duration", 0, "stop after this time; 0 for never")
	must(cmd.MarkFlagFilename("write"))
	return cmd
}

// dash is the FILE that means standard input or output.
const dash = "-"

func (f *captureFlags) check(a *app) error {
	switch {
	case f.file == "":
		return usagef("capture needs -w FILE, or -w - for standard output")
	case f.duration < 0:
		return usagef("--duration must not be negative")
	case f.file == dash && a.format != output.FormatTable:
		return usagef("-w - and -o %s both use standard output: change one of them", a.format)
	case f.file == dash && isTerminal(a.stdout):
		return usagef("a capture is binary, and standard output is a terminal: use -w FILE, or a pipe such as | tshark -r -")
	}
	return nil
}

// captured is what became of a capture.
type captured struct {
	File    string  `json:"file"`
	Packets uint64  `json:"packets"`
	Bytes   uint64  `json:"bytes"`
	Dropped float64 `json:"dropped"`
}

// capture writes what rdmad sends, piece by piece; every piece is whole
// blocks, and an interruption falls between two of them.
func (a *app) capture(ctx context.Context, f *captureFlags) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &captureWriter{app: a, flags: f, progress: output.NewProgress(a.stderr)}
	var timer *time.Timer
	err := a.keep(ctx, func(conn *grpc.ClientConn, begun func()) error {
		w.before = w.done.Dropped
		return receive(ctx, conn, api.Capture, &f.req, begun, func(piece *rdmadv1.CaptureResponse) error {
			if timer == nil && f.duration > 0 { // from when rdmad captures
				timer = time.AfterFunc(f.duration, cancel)
			}
			err := w.write(piece)
			if err == nil && f.count > 0 && w.done.Packets >= f.count {
				err = io.EOF
			}
			return err
		})
	})
	if timer != nil {
		timer.Stop()
	}
	if ended(ctx, err) || errors.Is(err, io.EOF) {
		err = nil
	}
	return w.finish(err)
}

// captureWriter writes the file, and shows its progress.
type captureWriter struct {
	app      *app
	flags    *captureFlags
	out      io.WriteCloser // nil before the first piece
	done     captured
	before   float64 // dropped before the last restart of rdmad
	began    time.Time
	drawn    time.Time
	progress *output.Progress
}

// write writes a piece. A file that is there is overwritten when the first
// comes, not when rdmad refuses.
func (w *captureWriter) write(piece *rdmadv1.CaptureResponse) error {
	if w.out == nil {
		out, err := w.app.create(w.flags.file)
		if err != nil {
			return fmt.Errorf("capture: %w", err)
		}
		w.out, w.began = out, time.Now()
	}
	data, packets := piece.GetData(), uint64(piece.GetPackets())
	if w.flags.count > 0 && w.done.Packets+packets > w.flags.count {
		packets = w.flags.count - w.done.Packets
		data = firstPackets(data, packets)
	}
	n, err := w.out.Write(data)
	w.done.Bytes += uint64(n)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	w.done.Packets += packets
	w.done.Dropped = w.before + piece.GetDropped()
	w.draw()
	return nil
}

// nopCloser leaves standard output open.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// redraw is the time between two states of the progress line, at least.
const redraw = 100 * time.Millisecond

func (w *captureWriter) draw() {
	now := time.Now()
	if now.Sub(w.drawn) < redraw {
		return
	}
	w.drawn = now
	text := w.done.String()
	switch f := w.flags; {
	case f.count > 0:
		w.progress.Draw(float64(w.done.Packets)/float64(f.count), text)
	case f.duration > 0:
		w.progress.Draw(float64(now.Sub(w.began))/float64(f.duration), text)
	default:
		w.progress.Text(text)
	}
}

func (c *captured) String() string {
	return fmt.Sprintf("%d packets, %d bytes, %.0f dropped", c.Packets, c.Bytes, c.Dropped)
}

// finish closes the file and prints the counts of its content.
func (w *captureWriter) finish(err error) error {
	w.progress.End()
	if w.out != nil {
		if closed := w.out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("capture: %w", closed)
		}
	}
	if w.out != nil || err == nil {
		w.done.File = w.flags.file
		fmt.Fprintln(w.app.stderr, w.done.String())
	}
	if err != nil || w.app.format == output.FormatTable {
		return err
	}
	return w.app.printer().Answer(&w.done, nil)
}
