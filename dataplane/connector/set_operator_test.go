package connector

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// operated is a set with a target, whose additions are in a file.
type operated struct {
	*Set
	t    *testing.T
	r    *rig
	spec Spec // with the target and without a name
	path string
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{t: t, r: newTargetless(t, newLoopback(t)), path: filepath.Join(t.TempDir(), "connectors.json")}
	var cfg Config
	o.r.listen(echo.New(), &cfg)
	o.spec = Spec{Listen: "127.0.0.1:0", Provider: "loopback", Target: cfg.Target}
	o.start(nil)
	return o
}

// start starts a set as a new rdmad does, with the file's connectors and those
// that were added before.
func (o *operated) start(file []Spec) {
	o.t.Helper()
	o.Set = NewSet(SetConfig{
		Dataplane: o.r.d, Bindings: bindings, Logger: slog.New(slog.DiscardHandler), Providers: []string{"loopback"},
		Provider: func(string) (rdmacm.Provider, error) { return o.r.p, nil },
	})
	s := o.Set
	o.t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			o.t.Error(err)
		}
	})
	if err := o.Configure(o.t.Context(), file); err != nil {
		o.t.Fatal(err)
	}
	if err := o.Restore(o.t.Context(), manager.NewConnectorFile(o.path)); err != nil {
		o.t.Fatal(err)
	}
	o.Start()
}

// restart ends the set, and starts another.
func (o *operated) restart(file []Spec) {
	o.t.Helper()
	if err := o.Shutdown(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
	o.start(file)
}

func (o *operated) named(name string) Spec {
	spec := o.spec
	spec.Name = name
	return spec
}

func (o *operated) add(name string) manager.ConnectorInfo {
	o.t.Helper()
	info, err := o.AddConnector(o.t.Context(), o.named(name))
	if err != nil {
		o.t.Fatal(err)
	}
	return info
}

// states are name, origin and state of all.
func (o *operated) states() (out []string) {
	for _, c := range o.Connectors() {
		out = append(out, c.Spec.Name+" "+c.Origin.String()+" "+c.State)
	}
	return out
}

func (o *operated) want(what string, want ...string) {
	o.t.Helper()
	if got := o.states(); !slices.Equal(got, want) {
		o.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (o *operated) dial(address string) *rpctcp.Client {
	o.t.Helper()
	c, err := rpctcp.Dial(o.t.Context(), address, rpctcp.ClientConfig{})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { c.Close() })
	return c
}

// TestOperators: a connector that is added carries calls at once, is back after
// a restart where clients know it, and gone for good when it is removed.
func TestOperators(t *testing.T) {
	o := newOperated(t)
	kept, going := o.add("kept"), o.add("going")
	o.want("added", "going runtime up", "kept runtime up")
	a, b := o.dial(kept.Address.String()), o.dial(going.Address.String())
	for _, c := range []*rpctcp.Client{a, b} {
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := o.RemoveConnector("going", time.Minute); err != nil || r != (dataplane.Removed{Drained: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := echoCall(t.Context(), a, echo.ProcNull, nil); err != nil {
		t.Errorf("the client of another connector: %v", err)
	}
	o.restart(nil)
	o.want("after a restart", "kept runtime up")
	if at := o.Connectors()[0].Address; at != kept.Address {
		t.Errorf("came back at %v, was at %v", at, kept.Address)
	}
	if _, err := o.RemoveConnector("kept", time.Minute); err != nil {
		t.Error(err)
	}
	o.restart(nil)
	o.want("removed")
}

// TestFileAndOperators: the file's connectors take the names of those that
// were added, which are not forgotten; a reload leaves the others alone.
func TestFileAndOperators(t *testing.T) {
	o := newOperated(t)
	o.add("a")
	o.add("b")
	if err := o.Reload(t.Context(), []Spec{o.named("a"), o.named("c")}, time.Second); err != nil {
		t.Fatal(err)
	}
	o.want("reloaded", "a config up", "b runtime up", "c config up")
	o.restart([]Spec{o.named("a")})
	o.want("restarted", "a config up", "b runtime up")
	o.restart(nil)
	o.want("without the file's", "a runtime up", "b runtime up")
	o.restart([]Spec{o.named("a")})
	if _, err := o.RemoveConnector("a", time.Second); err != nil {
		t.Fatal(err)
	}
	o.want("the file's removed", "b runtime up")
	if err := o.Reload(t.Context(), []Spec{o.named("a")}, time.Second); err != nil {
		t.Fatal(err)
	}
	o.want("and reloaded", "a config up", "b runtime up")
	o.restart(nil)
	o.want("what was in the file's shadow is forgotten", "b runtime up")
}

// TestNotBroughtBack: one whose address is taken stays on the list, and can be
// removed or added again.
func TestNotBroughtBack(t *testing.T) {
	o := newOperated(t)
	info := o.add("a")
	taken := o.named("b")
	taken.Listen = info.Address.String()
	o.restart([]Spec{taken})
	o.want("taken", "a runtime failed", "b config up")
	if c := o.Connectors()[0]; c.Name != "a" || c.Failure == "" {
		t.Errorf("%+v", c)
	}
	o.restart([]Spec{taken}) // it is still written down
	if _, err := o.AddConnector(t.Context(), o.named("a")); err != nil {
		t.Fatal(err)
	}
	o.want("added again", "a runtime up", "b config up")
	o.restart(nil)
	o.want("with its new address", "a runtime up")
}

// TestBadAdditions: what can't be had changes nothing.
func TestBadAdditions(t *testing.T) {
	o := newOperated(t)
	info := o.add("a")
	for _, c := range []struct {
		name   string
		change func(*Spec)
		want   func(error) bool
	}{
		{"no name", func(s *Spec) { s.Name = "" }, is[*manager.InvalidError]},
		{"listen", func(s *Spec) { s.Listen = "here" }, is[*manager.InvalidError]},
		{"target", func(s *Spec) { s.Target = "there" }, is[*manager.InvalidError]},
		{"target's port", func(s *Spec) { s.Target = "there:0" }, is[*manager.InvalidError]},
		{"provider", func(s *Spec) { s.Provider = "x" }, is[*manager.UnknownError]},
		{"dial timeout", func(s *Spec) { s.DialTimeout = 1 }, is[*manager.InvalidError]},
		{"callback timeout", func(s *Spec) { s.CallbackTimeout = time.Hour }, is[*manager.InvalidError]},
		{"calls", func(s *Spec) { s.MaxCalls = 4097 }, is[*manager.InvalidError]},
		{"reply", func(s *Spec) { s.MaxReply = -1 }, is[*manager.InvalidError]},
		{"memory", func(s *Spec) { s.Limits.Memory = 1 }, is[*manager.InvalidError]},
		{"limit", func(s *Spec) { s.Limits.Connections = -1 }, is[*manager.InvalidError]},
		{"address in use", func(s *Spec) { s.Listen = info.Address.String() }, is[*manager.AddressError]},
		{"name in use", func(s *Spec) { s.Name = "a" }, is[*manager.ExistsError]},
		{"name of a listener", func(s *Spec) { s.Name = o.r.d.Listeners()[0].Name }, is[*manager.ExistsError]},
	} {
		spec := o.named("b")
		c.change(&spec)
		if _, err := o.AddConnector(t.Context(), spec); !c.want(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := o.RemoveConnector("b", 0); !errors.Is(err, dataplane.ErrNotFound) {
		t.Errorf("removed nothing: %v", err)
	}
	o.want("after all that", "a runtime up")
	if err := os.RemoveAll(filepath.Dir(o.path)); err != nil {
		t.Fatal(err)
	}
	if _, err := o.AddConnector(t.Context(), o.named("b")); !is[*manager.StoreError](err) {
		t.Errorf("added without a disk: %v", err)
	}
	if _, err := o.RemoveConnector("a", 0); !is[*manager.StoreError](err) {
		t.Errorf("removed without a disk: %v", err)
	}
	o.want("without a disk", "a runtime up")
	if err := o.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.AddConnector(t.Context(), o.named("b")); !errors.Is(err, dataplane.ErrShutdown) {
		t.Errorf("added after the end: %v", err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
