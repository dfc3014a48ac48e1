package costs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// connections needs a descriptor of rdmad and one of this process for each: see ulimit -n.
var connections = flag.Int("connections", 10000, "BenchmarkMany's connections")

const (
	period = time.Second // between two calls of one of many connections
	lasts  = 15 * time.Second
)

// BenchmarkMany measures many connections with one call per second each, beside one busy
// connection: processor time of rdmad for a call, connections accepted per second, memory,
// descriptors, and the time of a settings update over all of them. The calls are counted twice: from
// the first one on, when almost each call is the first to use its receive's memory, and later.
func BenchmarkMany(b *testing.B) {
	d := start(b, fmt.Sprintf("limits: {connections: %d, connections_per_peer: %d, memory: %d}\n", *connections+10, *connections+10, 2<<30))
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	first := d.dial(b, p)
	call(b, ctx, first)
	b.ResetTimer()
	for update := 1; b.Loop(); update++ {
		busy := d.perCall(b, func() (calls int) {
			for began := time.Now(); time.Since(began) < lasts/3; calls++ {
				call(b, ctx, first)
			}
			return calls
		})
		before, began := d.resident(b), time.Now()
		clients := d.dialMany(b, p)
		b.ReportMetric(float64(len(clients))/time.Since(began).Seconds(), "accepts/s")
		rare := d.perCall(b, func() int { return callSeldom(b, clients) })
		later := d.perCall(b, func() int { return callSeldom(b, clients) })
		b.ReportMetric(float64(d.resident(b)-before)/float64(len(clients))/1024, "KiB/connection")
		b.ReportMetric(float64(d.descriptors(b)), "descriptors")
		began = time.Now()
		d.rdmactl(b, "settings", "set", fmt.Sprint("ddp.min_chunk=", 4096+1024*update))
		b.ReportMetric(time.Since(began).Seconds(), "s/update")
		b.ReportMetric(busy.Seconds()*1e6, "us/call-of-one")
		b.ReportMetric(rare.Seconds()*1e6, "us/call-of-many")
		b.ReportMetric(rare.Seconds()/busy.Seconds(), "ratio")
		b.ReportMetric(later.Seconds()*1e6, "us/call-later")
		b.ReportMetric(later.Seconds()/busy.Seconds(), "ratio-later")
		b.ReportMetric(0, "ns/op")
		for _, c := range clients {
			c.Close()
		}
	}
}

func (d *daemon) dial(b *testing.B, p *softiwarp.Provider) *rpcrdma.Client {
	c, err := rpcrdma.Dial(b.Context(), p, d.rdma, rpcrdma.DialConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// dialMany connects many clients, 64 at once.
func (d *daemon) dialMany(b *testing.B, p *softiwarp.Provider) []*rpcrdma.Client {
	clients := make([]*rpcrdma.Client, *connections)
	var wg sync.WaitGroup
	for at := range 64 {
		wg.Go(func() {
			for i := at; i < len(clients); i += 64 {
				c, err := rpcrdma.Dial(b.Context(), p, d.rdma, rpcrdma.DialConfig{})
				if err != nil {
					b.Error(err)
					return
				}
				clients[i] = c
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return clients
}

func call(b *testing.B, ctx context.Context, c *rpcrdma.Client) {
	if err := c.Call(ctx, &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
		b.Error(err)
	}
}

// callSeldom makes a call per period on each connection, and returns the number of calls.
func callSeldom(b *testing.B, clients []*rpcrdma.Client) int {
	ctx, cancel := context.WithTimeout(b.Context(), lasts)
	defer cancel()
	var wg sync.WaitGroup
	calls := make([]int, len(clients))
	for i, c := range clients {
		wg.Go(func() {
			next := time.NewTimer(rand.N(period))
			defer next.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-next.C:
				}
				call(b, b.Context(), c)
				calls[i]++
				next.Reset(period)
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range calls {
		sum += n
	}
	return sum
}

// perCall returns the processor time that rdmad uses for each call that work makes.
func (d *daemon) perCall(b *testing.B, work func() (calls int)) time.Duration {
	began := d.processor(b)
	calls := work()
	return (d.processor(b) - began) / time.Duration(max(calls, 1))
}

// processor returns the processor time of rdmad so far (proc_pid_stat(5)).
func (d *daemon) processor(b *testing.B) time.Duration {
	fields := bytes.Fields(d.proc(b, "stat")) // rdmad's name has no space
	user, _ := strconv.Atoi(string(fields[13]))
	system, _ := strconv.Atoi(string(fields[14]))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident returns the resident memory of rdmad, in bytes (proc_pid_statm(5)).
func (d *daemon) resident(b *testing.B) int {
	pages, _ := strconv.Atoi(string(bytes.Fields(d.proc(b, "statm"))[1]))
	return pages * os.Getpagesize()
}

// descriptors returns how many files rdmad has open.
func (d *daemon) descriptors(b *testing.B) int {
	names, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(d.pid), "fd"))
	if err != nil {
		b.Fatal(err)
	}
	return len(names)
}

func (d *daemon) proc(b *testing.B, name string) []byte {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(d.pid), name))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func (d *daemon) rdmactl(b *testing.B, args ...string) {
	cmd := exec.Command(filepath.Join(filepath.Dir(*program), "rdmactl"), append([]string{"--addr", d.control}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("rdmactl %v: %v\n%s", args, err, out)
	}
}
