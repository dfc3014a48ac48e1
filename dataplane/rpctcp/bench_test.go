package rpctcp

import (
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// BenchmarkCall makes calls over loopback TCP, depth of them at a time.
func BenchmarkCall(b *testing.B) {
	for _, bench := range []struct {
		name  string
		depth int
		bytes int
		proc  uint32
		args  []byte
	}{
		{"null/depth=1", 1, 0, echo.ProcNull, nil},
		{"null/depth=16", 16, 0, echo.ProcNull, nil},
		{"read=4KiB/depth=16", 16, 4 << 10, echo.ProcRead, xdr.AppendUint32(nil, 4<<10)},
		{"read=1MiB/depth=1", 1, 1 << 20, echo.ProcRead, xdr.AppendUint32(nil, 1<<20)},
		{"read=1MiB/depth=8", 8, 1 << 20, echo.ProcRead, xdr.AppendUint32(nil, 1<<20)},
		{"write=4KiB/depth=16", 16, 4 << 10, echo.ProcWrite, opaque(4 << 10)},
		{"write=1MiB/depth=1", 1, 1 << 20, echo.ProcWrite, opaque(1 << 20)},
		{"write=1MiB/depth=8", 8, 1 << 20, echo.ProcWrite, opaque(1 << 20)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := startTCP(b, Config{Handler: echo.New()})
			c, err := Dial(b.Context(), s.addr, ClientConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.SetBytes(int64(bench.bytes))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range bench.depth {
				wg.Go(func() {
					into := make([]byte, bench.bytes+oncrpc.AcceptedReplySize+64)
					for range (b.N + i) / bench.depth {
						if _, err := c.Call(b.Context(), echo.Program, echo.Version, bench.proc, bench.args, into); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
