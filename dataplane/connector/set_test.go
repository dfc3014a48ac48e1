package connector

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestReload: connectors come and go with the configuration, and those that
// stay keep their clients.
func TestReload(t *testing.T) {
	r := newTargetless(t, newLoopback(t))
	var cfg Config
	r.listen(echo.New(), &cfg)
	s := NewSet(SetConfig{
		Dataplane: r.d, Bindings: bindings, Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Provider: func(name string) (rdmacm.Provider, error) {
			if name != "loopback" {
				return nil, errors.New("no such provider")
			}
			return r.p, nil
		},
	})
	defer s.Shutdown(t.Context())
	spec := func(name string) Spec {
		return Spec{Name: name, Listen: "127.0.0.1:0", Provider: "loopback", Target: cfg.Target}
	}
	if err := s.Configure(t.Context(), []Spec{spec("a"), spec("b")}); err != nil {
		t.Fatal(err)
	}
	s.Start()
	dial := func(name string) *rpctcp.Client {
		t.Helper()
		c, err := rpctcp.Dial(t.Context(), s.find(name).Addr().String(), rpctcp.ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	answers := func(c *rpctcp.Client) bool {
		_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
		return err == nil
	}
	a, b := dial("a"), dial("b")
	if !answers(a) || !answers(b) {
		t.Fatal("no answer")
	}

	limited, other := spec("a"), spec("c")
	limited.Limits.Connections = 1
	limited.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if err := s.Reload(t.Context(), []Spec{limited, other}, time.Second); err != nil {
		t.Fatal(err)
	}
	if !answers(a) {
		t.Error("a client was lost over another limit")
	}
	if answers(b) {
		t.Error("a connector that was removed answers")
	}
	if !answers(dial("c")) || answers(dial("a")) {
		t.Error("what was added or limited is not in force")
	}
	var names []string
	for _, i := range r.d.Connectors() {
		names = append(names, i.Name)
	}
	if len(names) != 2 || names[0] != "a" || names[1] != "c" {
		t.Errorf("connectors %q", names)
	}

	moved := limited
	moved.DialTimeout = time.Second
	bad := spec("d")
	bad.Provider = "x"
	if err := s.Reload(t.Context(), []Spec{moved, other, bad}, time.Second); err == nil {
		t.Error("a provider that there isn't")
	}
	if answers(a) {
		t.Error("a connector that was bound again kept its client")
	}
	if !answers(dial("a")) {
		t.Error("a connector that was bound again does not answer")
	}
}

// TestSetFails: an address in use is told as for listeners, and nothing is left.
func TestSetFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newTargetless(t, newLoopback(t))
	s := NewSet(SetConfig{
		Dataplane: r.d, Logger: slog.New(slog.DiscardHandler),
		Provider: func(string) (rdmacm.Provider, error) { return r.p, nil },
	})
	err = s.Configure(t.Context(), []Spec{{Name: "a", Listen: l.Addr().String(), Provider: "loopback", Target: "127.0.0.1:1"}})
	if a, ok := errors.AsType[*manager.AddressError](err); !ok || !a.InUse || a.What != "connector a" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Configure(t.Context(), []Spec{{Name: "a", Listen: "127.0.0.1:0", Provider: "loopback", Target: "127.0.0.1:1"}}); !errors.Is(err, dataplane.ErrShutdown) {
		t.Errorf("after the end: %v", err)
	}
}
