package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

// with is the default settings with extensions.v2 off, on or required.
func with(v2 string) rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	switch v2 {
	case "on":
		s.Extensions |= rpcrdma.ExtV2
	case "required":
		s.Extensions |= rpcrdma.ExtV2Only
	}
	return s
}

// What becomes of extensions.v2 on connections that peers made.
func TestVersion2Outcome(t *testing.T) {
	one, two := limits{version: 1, agreed: true, receives: 4096}, limits{version: 2, agreed: true, receives: 4096}
	fresh, small := limits{version: 1, receives: 4096}, limits{version: 1, receives: 1024}
	chose1 := "extensions.v2: the peer's first call chose version 1, for as long as the connection lives"
	chose2 := "extensions.v2: the peer's first call chose version 2, for as long as the connection lives"
	tooSmall := "extensions.v2: version 2 needs receives of 4096 bytes, this connection's have 1024; the next will have them"
	for _, c := range []struct {
		name   string
		peer   limits
		now    string
		want   Outcome
		reason string
	}{
		{"version 1", one, "off", Applied, ""},
		{"version 1", one, "on", PendingReconnect, chose1},
		{"version 1", one, "required", PendingReconnect, chose1},
		{"version 2", two, "off", PendingReconnect, chose2},
		{"version 2", two, "on", Applied, ""},
		{"version 2", two, "required", Applied, ""},
		{"no call yet", fresh, "off", Applied, ""},
		{"no call yet", fresh, "on", Applied, ""},
		{"no call yet", fresh, "required", Applied, ""},
		{"small receives", small, "off", Applied, ""},
		{"small receives", small, "on", Unsupported, tooSmall},
		{"small receives", small, "required", Unsupported, tooSmall},
	} {
		now, at := with(c.now), rpcrdma.DefaultSettings()
		if got, reason := outcome(KeyExtensionV2, &now, &at, c.peer); got != c.want || reason != c.reason {
			t.Errorf("%s, %s: %d %q, want %d %q", c.name, c.now, got, reason, c.want, c.reason)
		}
	}
}

// The same on connections that a connector made, which offered something.
func TestConnectorVersion2Outcome(t *testing.T) {
	one, two, asked := limits{version: 1, agreed: true}, limits{version: 2, agreed: true}, limits{version: 2}
	offered := "extensions.v2: the target is offered version 2 at connect"
	holds := "extensions.v2: what the target was offered at connect holds until it answers"
	for _, c := range []struct {
		at, now string
		peer    limits
		want    Outcome
		reason  string
	}{
		{"off", "off", one, Applied, ""},
		{"off", "on", one, PendingReconnect, offered},
		{"off", "required", one, PendingReconnect, "extensions.v2: version 1 is agreed on, for as long as the connection lives"},
		{"on", "on", one, Applied, ""}, // the target has no version 2
		{"on", "required", one, PendingReconnect, "extensions.v2: version 1 is agreed on, for as long as the connection lives"},
		{"on", "off", one, Applied, ""},
		{"on", "required", two, Applied, ""},
		{"on", "off", two, PendingReconnect, "extensions.v2: version 2 is agreed on, for as long as the connection lives"},
		{"required", "on", two, Applied, ""},
		{"on", "off", asked, PendingReconnect, holds},
		{"on", "required", asked, PendingReconnect, holds},
		{"required", "on", asked, PendingReconnect, holds},
		{"on", "on", asked, Applied, ""},
	} {
		now, at := with(c.now), with(c.at)
		if got, reason := connectorOutcome(KeyExtensionV2, &now, &at, c.peer); got != c.want || reason != c.reason {
			t.Errorf("%s to %s, %+v: %d %q, want %d %q", c.at, c.now, c.peer, got, reason, c.want, c.reason)
		}
	}
}

// Connections are counted by the version that was agreed on, once they have
// one; those of clients that offer nothing else than version 1 as well.
func TestVersionsAreCounted(t *testing.T) {
	p := newPlane(t, Config{Resolver: resolver(func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtV2 })})
	addr := p.listen("a", echo.New())
	p.Start()
	check := func(want [3]int) {
		t.Helper()
		if got := p.Stats()[0].Versions; got != want {
			t.Errorf("versions %v, want %v", got, want)
		}
	}
	two := with("on")
	var clients []*rpcrdma.Client
	for _, s := range []*rpcrdma.Settings{nil, &two, nil} {
		c, _ := p.dial(addr, s)
		clients = append(clients, c)
	}
	check([3]int{3, 0, 0})
	for _, c := range clients[:2] {
		if err := c.Call(t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version}); err != nil {
			t.Fatal(err)
		}
	}
	check([3]int{1, 1, 1})
}
