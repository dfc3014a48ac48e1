package connector

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// benchSize is what a READ or WRITE moves, in bytes.
const benchSize = 1 << 20

// BenchmarkNull makes NULL calls through a connector to soft-iWARP, and the
// same straight over TCP, in turns.
func BenchmarkNull(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) { compare(b, depth, 2000, 0, 0, nil) })
	}
}

// BenchmarkRead reads 1 MiB of a file per call.
func BenchmarkRead(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("size=1MiB/depth=%d", depth), func(b *testing.B) {
			compare(b, depth, 64, benchSize, procRead, func(file []byte) []byte {
				return nfstest.ReadArgs(file, 0, benchSize)
			})
		})
	}
}

// BenchmarkWrite writes 1 MiB of a file per call.
func BenchmarkWrite(b *testing.B) {
	for _, depth := range []int{1, 8} {
		b.Run(fmt.Sprintf("size=1MiB/depth=%d", depth), func(b *testing.B) {
			compare(b, depth, 64, benchSize, procWrite, func(file []byte) []byte {
				return append(nfstest.WriteArgs(file, 0, benchSize, nfstest.Unstable), make([]byte, benchSize)...)
			})
		})
	}
}

// compare times rounds of calls of NFS through a connector and straight over
// TCP, in turns. args makes the arguments for a file; size is what a call
// moves, in bytes.
func compare(b *testing.B, depth, round, size int, proc uint32, args func(file []byte) []byte) {
	e := newExport(b, providers[1].make(b))
	file := e.create("file")
	if err := os.Truncate(filepath.Join(e.dir, "file"), benchSize); err != nil {
		b.Fatal(err)
	}
	var a []byte
	if args != nil {
		a = args(file)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := rpctcp.NewServer(rpctcp.Config{Handler: e.handler})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	cred := rpctcp.ClientConfig{MaxCalls: 64, Cred: e.cred}
	straight, err := rpctcp.Dial(b.Context(), l.Addr().String(), cred)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { straight.Close() })
	sides := [2]*benchSide{newBenchSide(e.client, depth, proc, a, size), newBenchSide(straight, depth, proc, a, size)}
	var took [2]time.Duration
	for _, s := range sides { // credits, buffers and TCP windows grow
		s.run(b, round)
	}
	for b.Loop() {
		for i, s := range sides {
			took[i] += s.run(b, round)
		}
	}
	unit, work := "calls/s", float64(b.N*round)
	if size > 0 {
		unit, work = "MB/s", work*float64(size)/1e6
	}
	b.ReportMetric(work/took[0].Seconds(), "connector-"+unit)
	b.ReportMetric(work/took[1].Seconds(), "tcp-"+unit)
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "ratio")
	b.ReportMetric(0, "ns/op") // of both together: says nothing
}

// benchSide is a client with depth calls in flight.
type benchSide struct {
	client *rpctcp.Client
	proc   uint32
	args   []byte
	into   [][]byte // for each caller
}

func newBenchSide(c *rpctcp.Client, depth int, proc uint32, args []byte, size int) *benchSide {
	s := &benchSide{client: c, proc: proc, args: args}
	for range depth {
		s.into = append(s.into, make([]byte, oncrpc.AcceptedReplySize+200+size))
	}
	return s
}

// run makes n calls and says how long they took.
func (s *benchSide) run(b *testing.B, n int) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	failed := make(chan error, len(s.into))
	start := time.Now()
	for _, into := range s.into {
		go func() {
			for left.Add(-1) >= 0 {
				if _, err := s.client.Call(context.Background(), nfs.Program, 3, s.proc, s.args, into); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range s.into {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}
