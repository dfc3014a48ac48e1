package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// shortages are what an rdmad has too little of for many connections, and what it
// says then.
var shortages = []struct{ name, limits, says string }{
	{"files", "ulimit -n 160; ulimit -l unlimited\n", "the files that may be open allow no more: raise ulimit -n, or LimitNOFILE"},
	{"locked memory", "ulimit -n 65536; ulimit -l 4096\n", "only 4096 KiB may be locked: raise ulimit -l, or LimitMEMLOCK"},
}

// mostConnections is more than each of the shortages allows.
const mostConnections = 100

// testShortages makes more connections than rdmad has resources for. The first
// connection without resources is rejected, with one log line that says what to
// raise. The others continue, and a peer that connects when there is room again
// is served.
func testShortages(t *testing.T, g *guest.Guest, p rdmacm.Provider) {
	address := fmt.Sprintf("127.0.0.1:%d", g.HostPort(echoPort))
	for _, c := range shortages {
		t.Run(c.name, func(t *testing.T) {
			r := startGuestEcho(t, g, c.limits)
			defer r.stop(t)
			ctx, cancel := context.WithTimeout(t.Context(), knfsdTime)
			defer cancel()
			null := func(client *rpcrdma.Client) error {
				return client.Call(ctx, &rpcrdma.Call{Program: echoProgram, Version: 1})
			}
			dial := func() (*rpcrdma.Client, error) {
				client, err := rpcrdma.Dial(ctx, p, address, rpcrdma.DialConfig{})
				if err != nil {
					return nil, err
				}
				return client, null(client) // has all receives posted
			}
			var clients []*rpcrdma.Client
			var err error
			for len(clients) < mostConnections && err == nil {
				var client *rpcrdma.Client
				if client, err = dial(); client != nil {
					defer client.Close()
					clients = append(clients, client)
				}
			}
			var rejected *rdmacm.RejectedError
			if !errors.As(err, &rejected) || len(clients) < 2 {
				t.Fatalf("after %d connections: %v", len(clients), err)
			}
			clients[0].Close()
			again, err := dial()
			for errors.As(err, &rejected) && ctx.Err() == nil { // rdmad is still closing the one before
				again, err = dial()
			}
			if err != nil {
				t.Fatalf("in place of one that has ended: %v", err)
			}
			defer again.Close()
			for i, client := range append(clients[1:], again) {
				if err := null(client); err != nil {
					t.Errorf("connection %d: %v", i, err)
				}
			}
			if log := g.MustRun(t, adapterTime, `grep '"connection refused"' /tmp/echo.log | head -n 1`); !strings.Contains(log, c.says) {
				t.Errorf("rdmad says %s", log)
			}
		})
	}
}
