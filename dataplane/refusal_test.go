package dataplane

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusalsAreCountedAllAndLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		buf := new(logBuffer)
		log, r := slog.New(slog.NewTextHandler(buf, nil)), newRefusalLog()
		note := func(n int, why Refusal) {
			for range n {
				r.note(log, "a", netip.MustParseAddrPort("192.0.2.1:7"), why, "because of "+why.String())
			}
		}
		note(1000, RefusedPerPeer)
		note(1, RefusedDenied)
		note(1, RefusedStopping)
		if n := len(buf.lines("because of connections_per_peer")); n != refusalBurst {
			t.Errorf("%d lines of 1000", n)
		}
		if n := len(buf.lines("because of denied")); n != 1 {
			t.Errorf("%d lines of another reason", n)
		}
		if n := len(buf.lines("stopping")); n != 0 {
			t.Errorf("%d lines of our own ending", n)
		}
		time.Sleep(refusalEvery) // the bubble's clock
		note(10, RefusedPerPeer)
		lines := buf.lines("because of connections_per_peer")
		if len(lines) != refusalBurst+1 || !strings.Contains(lines[refusalBurst], "not_logged=995") {
			t.Errorf("after a while:\n%s", strings.Join(lines, ""))
		}
		got := r.snapshot()
		if got != (Refusals{RefusedPerPeer: 1010, RefusedDenied: 1, RefusedStopping: 1}) || got.Sum() != 1012 {
			t.Errorf("counted %v", got)
		}
	})
}
