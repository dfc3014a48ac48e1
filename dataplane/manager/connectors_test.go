package manager

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// operated is a manager whose file has a target for connectors.
type operated struct {
	*rig
	spec spec.Connector // with the target and without a name
}

func newOperated(t *testing.T) *operated {
	t.Helper()
	o := &operated{newRig(t), spec.Connector{Listen: "127.0.0.1:0", Provider: "loopback", Target: "127.0.0.1:7001"}}
	o.start()
	return o
}

// file is a configuration file with these connectors.
func (o *operated) file(connectors ...spec.Connector) *spec.All {
	in := onLoopback("in", "test")
	in.Address = o.spec.Target
	return &spec.All{Services: []spec.Service{echoService("test")}, Listeners: []spec.Listener{in}, Connectors: connectors}
}

// start ends the manager, and starts another as a new rdmad does, with the file's
// connectors and those that were added before.
func (o *operated) start(connectors ...spec.Connector) {
	o.t.Helper()
	o.restart(o.file(connectors...))
}

func (o *operated) reload(connectors ...spec.Connector) error {
	return o.reloadAll(o.file(connectors...), time.Second)
}

func echoCall(ctx context.Context, c *rpctcp.Client) error {
	_, err := c.Call(ctx, echo.Program, echo.Version, echo.ProcNull, nil, nil)
	return err
}

func (o *operated) named(name string) spec.Connector {
	s := o.spec
	s.Name = name
	return s
}

func (o *operated) add(name string) ConnectorInfo {
	o.t.Helper()
	info, err := o.Connectors.Add(o.t.Context(), o.named(name))
	if err != nil {
		o.t.Fatal(err)
	}
	return info
}

// states are name, origin and state of all.
func (o *operated) states() (out []string) {
	for _, c := range o.Connectors.List() {
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

// TestOperators: a new connector carries calls at once, keeps its name to itself, has the same
// address after a restart, and is gone for good when it is removed.
func TestOperators(t *testing.T) {
	o := newOperated(t)
	kept, going := o.add("kept"), o.add("going")
	o.want("added", "going runtime up", "kept runtime up")
	if _, err := o.Listeners.Add(t.Context(), onLoopback("kept", "test")); !errors.Is(err, dataplane.ErrExists) {
		t.Errorf("a listener with the name of a connector: %v", err)
	}
	a, b := o.dial(kept.Live.Address.String()), o.dial(going.Live.Address.String())
	for _, c := range []*rpctcp.Client{a, b} {
		if err := echoCall(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := o.Connectors.Remove(t.Context(), "going", time.Minute); err != nil || r.Removed != (dataplane.Removed{Drained: 1}) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := echoCall(t.Context(), a); err != nil {
		t.Errorf("the client of another connector: %v", err)
	}
	o.start()
	o.want("after a restart", "kept runtime up")
	if at := o.Connectors.List()[0].Live.Address; at != kept.Live.Address {
		t.Errorf("came back at %v, was at %v", at, kept.Live.Address)
	}
	if _, err := o.Connectors.Remove(t.Context(), "kept", time.Minute); err != nil {
		t.Error(err)
	}
	o.start()
	o.want("removed")
}

// TestFileAndOperators: the file's connectors take the names of additions, which are kept. A
// reload does not affect the others.
func TestFileAndOperators(t *testing.T) {
	o := newOperated(t)
	o.add("a")
	o.add("b")
	if err := o.reload(o.named("a"), o.named("c")); err != nil {
		t.Fatal(err)
	}
	o.want("reloaded", "a config up", "b runtime up", "c config up")
	o.start(o.named("a"))
	o.want("restarted", "a config up", "b runtime up")
	o.start()
	o.want("without the file's", "a runtime up", "b runtime up")
	o.start(o.named("a"))
	if _, err := o.Connectors.Remove(t.Context(), "a", time.Second); err != nil {
		t.Fatal(err)
	}
	o.want("the file's removed", "b runtime up")
	if err := o.reload(o.named("a")); err != nil {
		t.Fatal(err)
	}
	o.want("and reloaded", "a config up", "b runtime up")
	o.start()
	o.want("what was in the file's shadow is forgotten", "b runtime up")
}

// TestNotBroughtBack: a connector whose address is in use stays in the list, and can be removed
// or added again.
func TestNotBroughtBack(t *testing.T) {
	o := newOperated(t)
	info := o.add("a")
	taken := o.named("b")
	taken.Listen = info.Live.Address.String()
	o.start(taken)
	o.want("taken", "a runtime failed", "b config up")
	if c := o.Connectors.List()[0]; c.Spec.Name != "a" || c.Failure == "" {
		t.Errorf("%+v", c)
	}
	o.start(taken) // it is still written down
	if _, err := o.Connectors.Add(t.Context(), o.named("a")); err != nil {
		t.Fatal(err)
	}
	o.want("added again", "a runtime up", "b config up")
	o.start()
	o.want("with its new address", "a runtime up")
}

// TestBadAdditions: an addition that fails changes nothing.
func TestBadAdditions(t *testing.T) {
	o := newOperated(t)
	info := o.add("a")
	for _, c := range []struct {
		name   string
		change func(*spec.Connector)
		want   func(error) bool
	}{
		{"no name", func(s *spec.Connector) { s.Name = "" }, is[*InvalidError]},
		{"listen", func(s *spec.Connector) { s.Listen = "here" }, is[*InvalidError]},
		{"target", func(s *spec.Connector) { s.Target = "there" }, is[*InvalidError]},
		{"target's port", func(s *spec.Connector) { s.Target = "there:0" }, is[*InvalidError]},
		{"provider", func(s *spec.Connector) { s.Provider = "x" }, is[*UnknownError]},
		{"dial timeout", func(s *spec.Connector) { s.DialTimeout = 1 }, is[*InvalidError]},
		{"callback timeout", func(s *spec.Connector) { s.CallbackTimeout = time.Hour }, is[*InvalidError]},
		{"calls", func(s *spec.Connector) { s.MaxCalls = 4097 }, is[*InvalidError]},
		{"reply", func(s *spec.Connector) { s.MaxReply = -1 }, is[*InvalidError]},
		{"memory", func(s *spec.Connector) { s.Limits.Memory = 1 }, is[*InvalidError]},
		{"limit", func(s *spec.Connector) { s.Limits.Connections = -1 }, is[*InvalidError]},
		{"address in use", func(s *spec.Connector) { s.Listen = info.Live.Address.String() }, is[*AddressError]},
		{"name in use", func(s *spec.Connector) { s.Name = "a" }, is[*ExistsError]},
		{"name of a listener", func(s *spec.Connector) { s.Name = o.data.Listeners()[0].Name }, is[*ExistsError]},
	} {
		one := o.named("b")
		c.change(&one)
		if _, err := o.Connectors.Add(t.Context(), one); !c.want(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := o.Connectors.Remove(t.Context(), "b", 0); !errors.Is(err, dataplane.ErrNotFound) {
		t.Errorf("removed nothing: %v", err)
	}
	o.want("after all that", "a runtime up")
	o.store.err = errors.New("disk full")
	if _, err := o.Connectors.Add(t.Context(), o.named("b")); !is[*StoreError](err) {
		t.Errorf("added without a disk: %v", err)
	}
	if _, err := o.Connectors.Remove(t.Context(), "a", 0); !is[*StoreError](err) {
		t.Errorf("removed without a disk: %v", err)
	}
	o.want("without a disk", "a runtime up")
	if err := o.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Connectors.Add(t.Context(), o.named("b")); !errors.Is(err, dataplane.ErrShutdown) {
		t.Errorf("added after the end: %v", err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
