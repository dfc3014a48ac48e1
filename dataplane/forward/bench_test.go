package forward

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// benchSize is what a READ or WRITE moves, in bytes.
const benchSize = 1 << 20

// disk answers NFSv3 NULL, READ and WRITE out of nothing, so that all the time
// goes into moving calls and data.
type disk struct{}

func (disk) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	switch c.Procedure {
	case 6:
		buf, err := r.Mem.Alloc(ctx, benchSize)
		if err != nil {
			return err
		}
		for _, v := range []uint32{0, 0, benchSize, 0, benchSize} {
			r.Stream = xdr.AppendUint32(r.Stream, v)
		}
		r.AppendItem(buf, benchSize)
	case 7:
		for _, v := range []uint32{0, 0, 0, benchSize, 2, 0, 0} {
			r.Stream = xdr.AppendUint32(r.Stream, v)
		}
	}
	return nil
}

// The calls that are timed.
const (
	benchNull  = 0
	benchRead  = 6
	benchWrite = 7
)

// benchArgs are a procedure's arguments, without the data.
func benchArgs(proc uint32) []byte {
	switch proc {
	case benchRead:
		return enc("handle42", 0, 0, benchSize)
	case benchWrite:
		return enc("handle42", 0, 0, benchSize, 0, benchSize)
	}
	return nil
}

// BenchmarkForward compares calls through a forwarder, RPC-over-RDMA on
// soft-iWARP in front of TCP, with the same calls straight over TCP, in turns
// in one run. The ratio is that of their rates.
func BenchmarkForward(b *testing.B) {
	for _, c := range []struct {
		name         string
		proc         uint32
		depth, round int
	}{
		{"NULL/depth=1", benchNull, 1, 1000},
		{"NULL/depth=64", benchNull, 64, 4000},
		{"READ/size=1MiB/depth=1", benchRead, 1, 64},
		{"READ/size=1MiB/depth=8", benchRead, 8, 64},
		{"WRITE/size=1MiB/depth=1", benchWrite, 1, 64},
		{"WRITE/size=1MiB/depth=8", benchWrite, 8, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			upstream := nfstest.ServeTCP(b, disk{})
			through, straight := benchThrough(b, upstream, c.proc, c.depth), benchStraight(b, upstream, c.proc, c.depth)
			timed(b, through, c.round) // credits, buffers and TCP windows grow
			timed(b, straight, c.round)
			var throughTime, straightTime time.Duration
			for b.Loop() {
				throughTime += timed(b, through, c.round)
				straightTime += timed(b, straight, c.round)
			}
			unit, work := "calls/s", float64(b.N*c.round)
			if c.proc != benchNull {
				unit, work = "MB/s", work*benchSize/1e6
			}
			b.ReportMetric(work/throughTime.Seconds(), "forward-"+unit)
			b.ReportMetric(work/straightTime.Seconds(), "tcp-"+unit)
			b.ReportMetric(straightTime.Seconds()/throughTime.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op") // of both together: says nothing
		})
	}
}

// caller makes a call again and again, for one goroutine.
type caller func(ctx context.Context) error

// benchThrough gives callers through a forwarder.
func benchThrough(b *testing.B, upstream string, proc uint32, depth int) (all []caller) {
	p, err := softiwarp.New(softiwarp.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	return benchThroughRig(b, newRig(b, p, upstream), proc, depth)
}

func benchThroughRig(b *testing.B, r *rig, proc uint32, depth int) (all []caller) {
	c := r.dial()
	for range depth {
		call := &rpcrdma.Call{Program: nfsProgram, Version: 3, Procedure: proc, Args: benchArgs(proc), MaxReply: 64}
		if proc != benchNull {
			buf, err := c.Alloc(b.Context(), benchSize)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(buf.Release)
			if proc == benchRead {
				call.Results = []rpcrdma.Result{{Buf: buf, Max: benchSize}}
			} else {
				call.Items = []oncrpc.ReplyItem{{Pos: len(call.Args), Buf: buf, Len: benchSize}}
			}
		}
		all = append(all, func(ctx context.Context) error { return c.Call(ctx, call) })
	}
	return all
}

// benchStraight gives callers over TCP.
func benchStraight(b *testing.B, upstream string, proc uint32, depth int) (all []caller) {
	c, err := rpctcp.Dial(b.Context(), upstream, rpctcp.ClientConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	for range depth {
		args, into := benchArgs(proc), make([]byte, 128)
		switch proc {
		case benchRead:
			into = make([]byte, benchSize+128)
		case benchWrite:
			args = append(args, make([]byte, benchSize)...)
		}
		all = append(all, func(ctx context.Context) error {
			_, err := c.Call(ctx, nfsProgram, 3, proc, args, into)
			return err
		})
	}
	return all
}

// timed makes n calls, each caller one at a time, and says how long they took.
func timed(b *testing.B, callers []caller, n int) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	failed := make(chan error, len(callers))
	start := time.Now()
	for _, call := range callers {
		go func() {
			for left.Add(-1) >= 0 {
				if err := call(b.Context()); err != nil {
					failed <- fmt.Errorf("call: %w", err)
					return
				}
			}
			failed <- nil
		}()
	}
	for range callers {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}
