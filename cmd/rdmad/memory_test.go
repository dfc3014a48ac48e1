//go:build linux && !race

// The race detector needs several times the memory of the process for itself.

package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

var (
	peakClients = flag.Int("peak.clients", 8, "connections that read and write 1 MiB as fast as they can")
	peakCalls   = flag.Int("peak.calls", 20, "reads and writes of each of their 8 workers")
	peakDeaf    = flag.Int("peak.deaf", 16, "connections that ask for 1 MiB and never read, each 63 times")
	peakRounds  = flag.Int("peak.rounds", 2000, "calls of somebody else meanwhile")
)

const (
	peakLimit = 256 << 20
	peakMost  = peakLimit + peakLimit/10 + 64<<20
	megabyte  = 1 << 20
)

// TestPeakMemory: the resident size stays within what limits.memory allows, under
// full load and under peers that ask for much data and read nothing, over RDMA and
// over TCP. It falls again when they have gone.
func TestPeakMemory(t *testing.T) {
	r := newRig(t)
	name := filepath.Join(r.dir, "rdmad.yaml")
	text := have(os.ReadFile(name))(t)
	text = append(bytes.Replace(text, []byte("nfs: {path: srv}"), []byte(`nfs: {path: srv, tcp_listen: "127.0.0.1:0"}`), 1),
		fmt.Sprintf("limits: {memory: %d}\n", peakLimit)...)
	must(t, os.WriteFile(name, text, 0o600))
	p := r.start()
	within := func(when string) {
		t.Helper()
		rss, peak := p.resident(t)
		t.Logf("%s: %d MiB now, %d MiB at most, of %d MiB; mapped %.0f MiB, Go runtime %.0f MiB", when, rss>>20, peak>>20, peakLimit>>20,
			p.metric(t, `rdmad_process_memory_bytes{kind="mapped"}`)/megabyte, p.metric(t, `rdmad_process_memory_bytes{kind="go"}`)/megabyte)
		if peak > peakMost {
			t.Errorf("%s: %d bytes at most, over %d", when, peak, int64(peakMost))
		}
	}
	within("at the start")
	r.fullLoad(p)
	within("under full load")

	other := r.dial(p.addresses["echo"])
	ctx, cancel := context.WithCancel(t.Context())
	var deaf sync.WaitGroup
	for range *peakDeaf {
		r.deaf(ctx, &deaf, p.addresses["echo"])
		deafTCP(ctx, t, &deaf, p.addresses["tcp_data"])
	}
	call := func() {
		must(t, other.Call(t.Context(), echoCall(nil)))
	}
	for p.metric(t, `rdmad_process_memory_bytes{kind="mapped"}`) < peakLimit/4 { // they have begun
		call()
	}
	for range *peakRounds {
		call()
	}
	within("with peers that never read")
	cancel()
	deaf.Wait()
	for p.metric(t, `rdmad_process_memory_bytes{kind="mapped"}`) > peakLimit/16 {
		call() // until idle memory has been given back
	}
	within("when they have gone")
	if rss, _ := p.resident(t); rss > peakLimit/2 {
		t.Errorf("%d bytes are resident with nothing to do", rss)
	}
	p.end(t, "TERM", 0)
}

// fullLoad reads and writes.
func (r *rig) fullLoad(p *process) {
	var load sync.WaitGroup
	for range *peakClients {
		c := have(rpcrdma.Dial(r.t.Context(), r.raw, p.addresses["echo"], rpcrdma.DialConfig{MemoryLimit: 64 * megabyte}))(r.t)
		r.t.Cleanup(func() { c.Close() })
		for worker := range 8 {
			load.Go(func() {
				buf, err := c.Alloc(r.t.Context(), megabyte)
				if err != nil {
					r.t.Error(err)
					return
				}
				defer buf.Release()
				for range *peakCalls {
					call := readCall(buf)
					if worker%2 == 1 {
						args := xdr.AppendUint32(nil, megabyte)
						call = &rpcrdma.Call{
							Program: echo.Program, Version: echo.Version, Procedure: echo.ProcWrite,
							Args: args, Items: []oncrpc.ReplyItem{{Pos: len(args), Buf: buf, Len: megabyte}}, MaxReply: 8,
						}
					}
					if err := c.Call(r.t.Context(), call); err != nil {
						r.t.Error(err)
						return
					}
				}
			})
		}
	}
	load.Wait()
}

// readCall asks for 1 MiB.
func readCall(into oncrpc.Buffer) *rpcrdma.Call {
	return &rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead,
		Args: xdr.AppendUint32(nil, megabyte), MaxReply: xdr.Unit, Results: []rpcrdma.Result{{Buf: into, Max: megabyte}},
	}
}

// deaf is a peer that asks for much data and reads none of it until ctx ends. The
// proxy before it stops passing data on.
func (r *rig) deaf(ctx context.Context, wait *sync.WaitGroup, address string) {
	front := have(net.Listen("tcp", "127.0.0.1:0"))(r.t)
	back := have(net.Dial("tcp", address))(r.t)
	heard := make(chan struct{})
	wait.Go(func() {
		defer back.Close()
		in, err := front.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		wait.Go(func() { io.Copy(back, in) })
		answers := bufio.NewReader(back)
		for {
			select {
			case <-heard: // and no more
				<-ctx.Done()
				return
			default:
			}
			if _, err := answers.Peek(1); err != nil {
				return
			}
			chunk, _ := answers.Peek(answers.Buffered())
			in.Write(chunk)
			answers.Discard(len(chunk))
		}
	})
	c, err := rpcrdma.Dial(ctx, r.raw, front.Addr().String(), rpcrdma.DialConfig{MemoryLimit: 64 * megabyte})
	if err != nil { // other deaf peers have all the memory
		front.Close()
		return
	}
	if err := c.Call(ctx, echoCall(nil)); err != nil { // its answer brings the credits
		r.t.Fatal(err)
	}
	buf := have(c.Alloc(ctx, megabyte))(r.t)
	close(heard)
	var calls sync.WaitGroup
	for range 63 {
		calls.Go(func() { c.Call(ctx, readCall(buf)) }) // it has no answer
	}
	wait.Go(func() {
		<-ctx.Done()
		c.Close()
		calls.Wait()
		buf.Release()
		front.Close()
	})
}

// deafTCP promises records of the largest size, and sends nothing.
func deafTCP(ctx context.Context, t *testing.T, wait *sync.WaitGroup, address string) {
	nc := have(net.Dial("tcp", address))(t)
	if _, err := nc.Write(oncrpc.AppendRecordMark(nil, rpctcp.DefaultMaxRecord, true)); err != nil {
		t.Fatal(err)
	}
	wait.Go(func() {
		<-ctx.Done()
		nc.Close()
	})
}

// resident is the resident size of the process.
func (p *process) resident(t *testing.T) (now, peak int64) {
	t.Helper()
	if now, peak = procmem.Resident(fmt.Sprintf("/proc/%d", p.cmd.Process.Pid)); now == 0 || peak == 0 {
		t.Fatalf("resident size %d, peak %d", now, peak)
	}
	return now, peak
}
