package rpctcp

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp/rpctcptest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// stopWithin shuts a server down during a READ of a client that has made another call meanwhile.
func stopWithin(t *testing.T, cfg Config, size int) (ended chan struct{}, nc net.Conn, r *oncrpc.RecordReader, down chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called, answer := make(chan struct{}), make(chan struct{})
	ended, down = make(chan struct{}, 2), make(chan error, 1)
	cfg.Handler = handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		close(called)
		<-answer
		return echo.New().ServeRPC(ctx, c, r)
	})
	s := startServer(t, cfg, rpctcptest.EndingListener{Listener: l, Ended: ended})
	nc, r = dialRaw(t, s)
	if _, err := nc.Write(record(1, echo.ProcRead, xdr.AppendUint32(nil, uint32(size)))); err != nil {
		t.Fatal(err)
	}
	<-called
	go func() { down <- s.Shutdown(t.Context()) }()
	<-s.ctx.Done()
	for _, c := range s.openConns() {
		c.intake.Stop() // Shutdown is about to
	}
	if _, err := nc.Write(record(2, echo.ProcNull, nil)); err != nil {
		t.Fatal(err)
	}
	close(answer)
	return ended, nc, r, down
}

// TestRepliesBeforeShutdown: a client gets its replies when the server is shut down, also if it
// reads late and has made more calls meanwhile.
func TestRepliesBeforeShutdown(t *testing.T) {
	const size = 192 << 10
	ended, nc, r, down := stopWithin(t, Config{}, size)
	<-ended
	if got := readRecord(t, r); !bytes.HasSuffix(got, opaque(size)) {
		t.Errorf("a reply of %d bytes, or another one", len(got))
	}
	nc.Close()
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestShutdownBesideDeafClient: a client that takes no replies, and does not close, does not keep
// a server from its end.
func TestShutdownBesideDeafClient(t *testing.T) {
	_, _, _, down := stopWithin(t, Config{WriteTimeout: time.Hour}, 5)
	if err := <-down; err != nil {
		t.Error(err)
	}
}
