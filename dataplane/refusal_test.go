package dataplane

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

func TestRefusalsAreCountedAndLogged(t *testing.T) {
	buf := new(logtest.Log)
	log, r := slog.New(slog.NewTextHandler(buf, nil)), new(refusalLog)
	note := func(n int, why Refusal) {
		for range n {
			r.note(log, "a", netip.MustParseAddrPort("192.0.2.1:7"), why, "because of "+why.String())
		}
	}
	note(10, RefusedPerPeer)
	note(1, RefusedDenied)
	note(1, RefusedStopping)
	for what, want := range map[string]int{
		`level=WARN msg="connection refused" listener=a peer=192.0.2.1:7 reason="because of connections_per_peer"`: 10,
		"because of denied": 1,
		"stopping":          0, // rdmad does this itself
	} {
		if n := len(buf.Lines(what)); n != want {
			t.Errorf("%d lines with %q, want %d", n, what, want)
		}
	}
	got := r.snapshot()
	if got != (Refusals{RefusedPerPeer: 10, RefusedDenied: 1, RefusedStopping: 1}) || got.Sum() != 12 {
		t.Errorf("counted %v", got)
	}
}
