package dataplane

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// cuttable passes one connection on to an address, until cut resets it towards
// the address.
func cuttable(t *testing.T, address string) (front string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	back, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		go func() { _, _ = io.Copy(back, nc) }() // until either is closed
		_, _ = io.Copy(nc, back)
	}()
	return l.Addr().String(), func() {
		_ = back.(*net.TCPConn).SetLinger(0)
		back.Close()
	}
}

// TestPeerResets: a peer that resets its connection after its work ends it in
// order. With a call being served that is counted; it is no fault of ours
// either way.
func TestPeerResets(t *testing.T) {
	for name, busy := range map[string]bool{"after its work": false, "with a call": true} {
		t.Run(name, func(t *testing.T) {
			siw, err := softiwarp.New(softiwarp.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { siw.Close() })
			judged := refereetest.Around(t, siw)
			p := newPlane(t, Config{})
			g := newGate()
			added, err := p.add(ListenerConfig{Name: "a", Provider: judged, Address: "127.0.0.1:0", Service: "echo", Handler: g})
			if err != nil {
				t.Fatal(err)
			}
			p.Start()
			front, cut := cuttable(t, added.Info().Address.String())
			c, err := rpcrdma.Dial(t.Context(), judged, front, rpcrdma.DialConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p.next(ConnUp)
			answered := make(chan error, 1)
			go func() { answered <- null(t.Context(), c) }()
			<-g.entered
			if !busy {
				close(g.open)
				if err := <-answered; err != nil {
					t.Fatal(err)
				}
			}
			cut()
			p.next(ConnDown)
			if busy {
				<-answered
			}
			lines := p.log.Lines("connection down")
			if len(lines) != 1 || !strings.Contains(lines[0], "level="+slog.LevelInfo.String()) || !strings.Contains(lines[0], "errors=0") {
				t.Errorf("logged %q", lines)
			}
			s := p.Stats()[0]
			if (s.Disconnects == 1) != busy || s.Totals.Errors != 0 {
				t.Errorf("%d disconnects, %d errors", s.Disconnects, s.Totals.Errors)
			}
		})
	}
}
