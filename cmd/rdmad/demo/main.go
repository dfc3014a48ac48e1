// Command demo shows rdmad at work: it starts one in a temporary folder, calls
// its services over RPC-over-RDMA on soft-iWARP, writes and reads a file by
// NFS, and changes a live setting while calls are in flight. It ends what it
// started and removes what it made, also when something fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// limit is how long the whole may take before it counts as hung.
const limit = time.Minute

func main() {
	bin := flag.String("bin", "", "`folder` with rdmad and rdmactl; built when not given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done in %v", limit))
	err := run(ctx, *bin, os.Stdout)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is a running demonstration.
type demo struct {
	out    io.Writer
	bin    string // folder of the binaries
	dir    string // temporary; all that is made is in it
	daemon *daemon
	steps  int
}

// run shows everything and cleans up.
func run(ctx context.Context, bin string, out io.Writer) (err error) {
	began := time.Now()
	d := &demo{out: out, bin: bin}
	if d.dir, err = os.MkdirTemp("", "rdmad-demo-"); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = context.Cause(ctx)
		}
		if d.daemon != nil {
			d.daemon.kill() // no effect after an orderly end
		}
		if e := os.RemoveAll(d.dir); err == nil {
			err = e
		}
		if err == nil {
			fmt.Fprintf(out, "\nDone in %.1f s: everything that was started has ended, %s is gone.\n", time.Since(began).Seconds(), d.dir)
		}
	}()
	for _, step := range []func(context.Context) error{
		d.build, d.start, d.echo, d.nfs, d.tune, d.metrics, d.stop,
	} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
	}
	d.summary()
	return nil
}

// title begins a step.
func (d *demo) title(what string) {
	d.steps++
	fmt.Fprintf(d.out, "\n%d. %s\n", d.steps, what)
}

// say prints a line of a step.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "   "+format+"\n", args...)
}
