package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/bench"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

const benchHelp = `Load an RPC-over-RDMA server over one connection, check every answer, and print
rates, latencies and the cost of a call.

  null   NULL calls to any server's program, found as by ping, or --program
  echo   --size bytes to the server and back, in the RPC messages
  read   --size bytes from the server, by RDMA Write if they are large
  write  --size bytes to the server, by RDMA Read if they are large

echo, read and write need a listener with rdmad's echo service. bench makes one
call before it measures. If you interrupt it, it prints its results so far. With
fewer credits from the server than --depth, calls wait at this end, and their
latency includes that.

Bytes per second count payload in one direction. Per-op counts are those of this
end, except RDMA Reads and Writes: the server makes them, and bench derives them
from the chunks in its replies. A server that splits a segment makes more.
Round trips are the changes of direction before the answer, halved: 1, or 2 if
the server must RDMA Read first. docs/library.md has details.

--set KEY=VALUE changes a setting of this end: sizes, chunks, extensions. It works
as rdmactl settings set does for rdmad. An extension is used if both ends have
it. --count ends the run after that many calls, if --duration does not end it first.

The exit code is 1 if an answer was wrong or missing.`

const benchExamples = `  rdmactl bench 192.0.2.7:20049 --op null --depth 16
  rdmactl bench 192.0.2.7:20049 --op read --size 1048576 --depth 8 --duration 30s
  rdmactl bench 192.0.2.7:20049 --op echo --size 3000 --rpc-version 2
  rdmactl bench 192.0.2.7:20049 --op write --size 32768 --count 1000 --set ddp.min_chunk=65536 --set inline.send_max=65536
  rdmactl bench nfs.example.net:20049 --op null --program 100003 --program-version 4 -o json`

// bencher is a bench being made.
type bencher struct {
	*app
	reach
	op          string
	size, depth int
	count       int
	duration    time.Duration
	set         []string // KEY=VALUE
	settings    *rpcrdma.Settings
}

// defaultSizes are the sizes of ops when --size is not given, in bytes.
var defaultSizes = map[bench.Op]int{bench.Echo: 1 << 10, bench.Read: 64 << 10, bench.Write: 64 << 10}

func newBench(a *app) *cobra.Command {
	b := &bencher{app: a}
	cmd := &cobra.Command{
		Use:         "bench HOST:PORT --op null|echo|read|write",
		Short:       "Measure an RPC-over-RDMA server, and the cost of a call",
		Long:        benchHelp,
		Example:     benchExamples,
		Annotations: noContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(cmd, args[0]); err != nil {
				return err
			}
			return b.at(cmd.Context(), &b.reach, args[0], b.settings, func(t *target.Target) error { return b.run(cmd.Context(), t) })
		},
	}
	f := cmd.Flags()
	b.versionFlag(cmd, 1, "RPC-over-RDMA version, 1 or 2; no other is offered")
	b.flags(cmd)
	f.StringVar(&b.op, "op", "", "operation of each call: "+strings.Join(bench.Ops, ", "))
	f.IntVar(&b.size, "size", 0, "bytes of payload per call (default 1024 for echo, 65536 for read and write)")
	f.IntVar(&b.depth, "depth", 1, "calls in flight")
	f.IntVar(&b.count, "count", 0, "most calls to make (default: no limit within --duration)")
	f.DurationVar(&b.duration, "duration", 10*time.Second, "how long")
	f.StringArrayVar(&b.set, "set", nil, "`KEY=VALUE`, a setting of this end; may be given more than once")
	must(cmd.RegisterFlagCompletionFunc("op", fixed(bench.Ops...)))
	must(cmd.RegisterFlagCompletionFunc("set", completeOwnSettings))
	return cmd
}

func (b *bencher) check(cmd *cobra.Command, address string) error {
	op, given := bench.Op(b.op), cmd.Flags().Changed("size")
	if !given {
		b.size = defaultSizes[op]
	}
	switch {
	case b.op == "":
		return usagef("bench needs --op, one of %s", strings.Join(bench.Ops, ", "))
	case !slices.Contains(bench.Ops, b.op):
		return usagef("--op %q is not one of %s", b.op, strings.Join(bench.Ops, ", "))
	case op == bench.Null && given && b.size != 0:
		return usagef("--size does not work with --op null, whose calls have no data")
	case op != bench.Null && cmd.Flags().Changed("program"):
		return usagef("--program needs --op null: %s is a procedure of the echo program", b.op)
	case b.size < 0 || b.size > bench.MaxSize:
		return usagef("--size must be 0 to %d", bench.MaxSize)
	case b.depth < 1 || b.depth > bench.MaxDepth:
		return usagef("--depth must be 1 to %d", bench.MaxDepth)
	case b.size*b.depth > bench.MaxMemory:
		return usagef("--size times --depth must be at most %d", bench.MaxMemory)
	case b.count < 0 || b.count == 0 && cmd.Flags().Changed("count"):
		return usagef("--count must be 1 or more")
	case b.duration <= 0:
		return usagef("--duration must be longer than 0")
	}
	if err := b.reach.check(cmd, address); err != nil {
		return err
	}
	return b.configure(cmd.Flags().Changed("rpc-version"))
}

// configure works out the settings of this end.
func (b *bencher) configure(versionGiven bool) error {
	s := rpcrdma.DefaultSettings()
	// Room for every call in flight, if the server grants it.
	s.CreditsMax = max(s.CreditsMax, uint32(b.depth))
	set, taken, err := assignments(b.set)
	if err == nil && taken != nil {
		err = fmt.Errorf("%s has its default without --set, not with the value %s", taken[0], unset)
	}
	sets := set.Keys().Has(settings.ExtensionV2)
	if sets && versionGiven {
		return usagef("--rpc-version and --set %s both choose the version: use only one", settings.ExtensionV2.String())
	}
	if !sets {
		b.speak(&s)
	}
	if err == nil {
		b.settings, err = target.Configure(s, set)
	}
	if err != nil {
		return usagef("--set: %v", err)
	}
	return nil
}

func (b *bencher) run(ctx context.Context, t *target.Target) error {
	cfg := bench.Config{
		Op: bench.Op(b.op), Size: b.size, Depth: b.depth, Calls: b.count, Duration: b.duration, Timeout: b.timeout,
	}
	if cfg.Op == bench.Null {
		var err error
		if cfg.Program, err = t.Find(ctx, b.wanted(), b.timeout); err != nil {
			return err
		}
	}
	progress := output.NewProgress(b.stderr)
	if progress.Shown() {
		cfg.Progress = func(p bench.Progress) {
			progress.Draw(p.Elapsed.Seconds()/b.duration.Seconds(), fmt.Sprintf("%.1fs of %v  %.0f ops/s  %d errors",
				p.Elapsed.Seconds(), b.duration, float64(p.Ops)/p.Elapsed.Seconds(), p.Errors))
		}
	}
	res, err := bench.Run(ctx, t, cfg)
	progress.End()
	if err != nil {
		return err
	}
	if err := b.printer().Answer(res, func() *output.Table { return benchTable(res) }); err != nil {
		return err
	}
	switch {
	case res.Lost:
		return fmt.Errorf("%s ended the connection after %v; %d calls failed", t.Address, res.Elapsed.Round(time.Millisecond), res.Errors)
	case res.Errors > 0:
		return fmt.Errorf("%d of %d calls failed, for example: %w", res.Errors, res.Ops+res.Errors, res.FirstError)
	}
	return nil
}

func benchTable(r *bench.Result) *output.Table {
	t := output.Pairs()
	t.Row("op", string(r.Op))
	t.Row("size", fmt.Sprintf("%d bytes", r.Size))
	depth := fmt.Sprint(r.Depth)
	if granted := int(r.CreditsGranted); granted < r.Depth {
		depth += fmt.Sprintf(", but the server granted %d at the end: latencies may include the wait for a credit", granted)
	}
	t.Row("depth", depth)
	t.Row("rpc version", fmt.Sprint(r.RPCVersion))
	t.Row("time", r.Elapsed.Round(time.Millisecond).String())
	t.Row("ops", fmt.Sprint(r.Ops))
	t.Cells(output.Cell{Text: "errors"}, output.Cell{Text: fmt.Sprint(r.Errors), Colour: either(r.Errors > 0, output.Red, output.Plain)})
	t.Row("ops per second", fmt.Sprintf("%.1f", r.OpsPerSecond))
	t.Row("bytes per second", fmt.Sprintf("%.0f", r.BytesPerSecond))
	t.Row("latency", fmt.Sprintf("p50 %s, p99 %s, max %s", micros(r.LatencyUS.P50), micros(r.LatencyUS.P99), micros(r.LatencyUS.Max)))
	t.Next = perOpTable(&r.PerOp)
	if r.Ops > 0 {
		t.Next.Next = output.Histogram("LATENCY", "OPS", latencyBars(r))
	}
	return t
}

func perOpTable(p *bench.PerOp) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "PER OP"}, {Name: "COUNT", Right: true}}}
	t.Row("sends", fmt.Sprint(p.Sends))
	t.Row("receives", fmt.Sprint(p.Receives))
	t.Row("rdma reads", fmt.Sprint(p.RDMAReads))
	t.Row("rdma writes", fmt.Sprint(p.RDMAWrites))
	t.Row("registrations", fmt.Sprint(p.Registrations))
	t.Row("local invalidations", fmt.Sprint(p.LocalInvalidations))
	t.Row("remote invalidations", fmt.Sprint(p.RemoteInvalidations))
	t.Row("round trips", fmt.Sprint(p.RoundTrips))
	return t
}

// latencyBars are the latencies between 1, 2, 5, 10 … us.
func latencyBars(r *bench.Result) []output.Bar {
	var bounds []uint64 // ns
	for decade := uint64(time.Microsecond); decade <= uint64(100*time.Second); decade *= 10 {
		bounds = append(bounds, decade, 2*decade, 5*decade)
	}
	bars := make([]output.Bar, len(bounds)+1)
	for i, b := range bounds {
		bars[i].Label = "< " + brief(time.Duration(b))
	}
	bars[len(bounds)].Label = "longer"
	r.Histogram.Each(func(lo, hi, n uint64) {
		i, _ := slices.BinarySearch(bounds, lo+(hi-lo)/2+1)
		bars[i].Count += float64(n)
	})
	return bars
}

// brief writes a round time.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
