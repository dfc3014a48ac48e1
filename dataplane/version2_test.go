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

// Connections are counted by their agreed version once they have one, including those of
// clients that offer only version 1.
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
