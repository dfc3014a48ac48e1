package nfstest

import (
	"log/slog"
	"net"
	"testing"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// ServeTCP serves a handler on TCP until the test's end.
func ServeTCP(t testing.TB, h oncrpc.Handler) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := rpctcp.NewServer(rpctcp.Config{Handler: h, Logger: slog.New(slog.DiscardHandler)})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
