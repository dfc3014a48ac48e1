// Command demo demonstrates rdmad. It starts an rdmad in a temporary folder, calls its
// services over RPC-over-RDMA on soft-iWARP, writes and reads a file by NFS, and changes a
// live setting while calls are in flight, and a configuration that rdmad refuses until it can
// be had. It ends everything that it started and removes
// everything that it made, even when something fails.
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

	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
)

// limit is how long the demonstration may take before it counts as hung.
const limit = time.Minute

func main() {
	bin := flag.String("bin", "", "`folder` with rdmad and rdmactl; built when not given")
	many := flag.Bool("fleet", false, "show a fleet of five rdmads on etcd instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done in %v", limit))
	steps := (*demo).one
	if *many {
		steps = (*demo).fleet
	}
	err := run(ctx, *bin, os.Stdout, steps)
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
	bin    string  // folder of the binaries
	dir    string  // temporary; contains everything that is made
	daemon *daemon // that rdmactl asks
	// started are all daemons, and clients the traffic with those of the fleet.
	started []*daemon
	clients []*traffic
	etcd    *etcdtest.Cluster
	steps   int
}

// step is one step of the demonstration.
type step func(context.Context) error

// one are the steps of the demonstration of one rdmad.
func (d *demo) one() []step {
	return []step{d.build, d.start, d.echo, d.nfs, d.tune, d.reload, d.metrics, d.stop, d.summary}
}

// run runs all steps and cleans up.
func run(ctx context.Context, bin string, out io.Writer, steps func(*demo) []step) (err error) {
	began := time.Now()
	d := &demo{out: out, bin: bin}
	if d.dir, err = os.MkdirTemp("", "rdmad-demo-"); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = context.Cause(ctx)
		}
		d.end()
		if e := os.RemoveAll(d.dir); err == nil {
			err = e
		}
		if err == nil {
			fmt.Fprintf(out, "\nDone in %.1f s: everything that was started has ended, %s is gone.\n", time.Since(began).Seconds(), d.dir)
		}
	}()
	for _, step := range steps(d) {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
	}
	return nil
}

// end ends what still runs.
func (d *demo) end() {
	for _, t := range d.clients {
		t.end()
	}
	for _, dm := range d.started {
		dm.Kill() // no effect after an orderly end
	}
	if d.etcd != nil {
		d.etcd.Close()
	}
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
