package main

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// callers make calls, one on each connection at a time, at a rate.
type callers struct {
	made    atomic.Uint64
	now     atomic.Int32 // phase that calls count for; phases is none
	latency [phases + 1]histogram.Histogram
	slices  []slice
	began   histogram.Snapshot // of the slice that goes on

	end  chan struct{}
	done sync.WaitGroup
}

// slice is one turn of a phase.
type slice struct {
	phase phase
	calls histogram.Snapshot // their latency, ns
}

// enter has the calls that are made from now on count for a phase, and ends
// the slice before.
func (c *callers) enter(p phase) {
	last := phase(c.now.Swap(int32(p)))
	if last != phases {
		var after histogram.Snapshot
		c.latency[last].Snapshot(&after)
		s := slice{phase: last}
		s.calls.Between(&c.began, &after)
		c.slices = append(c.slices, s)
	}
	if p != phases {
		c.latency[p].Snapshot(&c.began)
	}
}

// start has each client make its part of rate calls per second.
func (c *callers) start(t *testing.T, clients []*rpcrdma.Client, rate int) {
	c.end = make(chan struct{})
	c.now.Store(int32(phases))
	every := time.Duration(len(clients)) * time.Second / time.Duration(rate)
	for i, client := range clients {
		c.done.Go(func() {
			w := newCaller(t, client, uint64(i))
			defer w.buf.Release()
			due := time.NewTimer(rand.N(every))
			defer due.Stop()
			for {
				select {
				case at := <-due.C:
					w.call(c, at)
					due.Reset(time.Until(at.Add(every)))
				case <-c.end:
					return
				}
			}
		})
	}
}

func (c *callers) stop() {
	close(c.end)
	c.done.Wait()
}

// readSize and echoSize are the most that one call moves, in bytes: some of
// it travels inline, some by RDMA, and the settings move the border.
const (
	readSize = 8 << 10
	echoSize = 3 << 10
)

// caller makes the calls of one connection.
type caller struct {
	t      *testing.T
	client *rpcrdma.Client
	random *rand.Rand
	buf    oncrpc.Buffer
	bytes  []byte
	want   []byte // what READ answers with
	rpc    rpcrdma.Call
}

func newCaller(t *testing.T, client *rpcrdma.Client, seed uint64) *caller {
	w := &caller{t: t, client: client, random: rand.New(rand.NewPCG(seed, 1)), bytes: make([]byte, echoSize), want: make([]byte, readSize)}
	var err error
	if w.buf, err = client.Alloc(t.Context(), readSize); err != nil {
		panic(err) // of memory that nobody else takes
	}
	echo.Fill(w.want)
	for i := range w.bytes {
		w.bytes[i] = byte(w.random.Uint32())
	}
	return w
}

// call makes one call, checks the answer, and counts it for the phase in which
// it began. at is when it was due.
func (w *caller) call(c *callers, at time.Time) {
	p := c.now.Load()
	var ok bool
	var err error
	if w.random.IntN(2) == 0 {
		ok, err = w.echo(w.random.IntN(echoSize) &^ 3)
	} else {
		ok, err = w.read(w.random.IntN(readSize))
	}
	if err != nil || !ok {
		w.t.Errorf("call %d: %v, answer right: %v", c.made.Load(), err, ok)
		return
	}
	c.made.Add(1)
	c.latency[p].Record(uint64(time.Since(at)))
}

func (w *caller) echo(n int) (ok bool, err error) {
	w.rpc = rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, MaxReply: 4 + n,
		Args: xdr.AppendOpaque(w.rpc.Args[:0], w.bytes[:n]), Reply: w.rpc.Reply,
	}
	err = w.client.Call(w.t.Context(), &w.rpc)
	return bytes.Equal(w.rpc.Reply, w.rpc.Args), err
}

func (w *caller) read(n int) (ok bool, err error) {
	// Padding may be written into the buffer too.
	w.rpc = rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead, MaxReply: 4,
		Args: xdr.AppendUint32(w.rpc.Args[:0], uint32(n)), Reply: w.rpc.Reply,
		Results: append(w.rpc.Results[:0], rpcrdma.Result{Buf: w.buf, Max: n, Find: func([]byte) int { return 0 }}),
	}
	err = w.client.Call(w.t.Context(), &w.rpc)
	if err != nil || len(w.rpc.Reply) < 4 || binary.BigEndian.Uint32(w.rpc.Reply) != uint32(n) {
		return false, err
	}
	got := w.buf.Bytes()
	if w.rpc.Results[0].Apart == 0 {
		got = w.rpc.Reply[4:]
	}
	return len(got) >= n && bytes.Equal(got[:n], w.want[:n]), nil
}
