package manager

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestReloadConnectors: connectors come and go with the configuration, and those that
// stay keep their clients.
func TestReloadConnectors(t *testing.T) {
	o := newOperated(t)
	o.start(o.named("a"), o.named("b"))
	dial := func(name string) *rpctcp.Client {
		t.Helper()
		return o.dial(o.connectors.info(name).Live.Address.String())
	}
	answers := func(c *rpctcp.Client) bool {
		return echoCall(t.Context(), c) == nil
	}
	a, b := dial("a"), dial("b")
	if !answers(a) || !answers(b) {
		t.Fatal("no answer")
	}

	limited, other := o.named("a"), o.named("c")
	limited.Limits.Connections, limited.Limits.Memory = 1, 16<<20
	limited.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if err := o.reload(limited, other); err != nil {
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
	for _, i := range o.data.Connectors() {
		names = append(names, i.Name)
	}
	if len(names) != 2 || names[0] != "a" || names[1] != "c" {
		t.Errorf("connectors %q", names)
	}

	moved := limited
	moved.DialTimeout = time.Second
	bad := o.named("d")
	bad.Provider = "x"
	if err := o.reload(moved, other, bad); err == nil {
		t.Error("a provider that there isn't")
	}
	if !answers(a) {
		t.Error("a refused reload ended a client's connection")
	}
	if err := o.reload(moved, other); err != nil {
		t.Error(err)
	}
	if answers(a) {
		t.Error("a connector that was bound again kept its client")
	}
	if !answers(dial("a")) {
		t.Error("a connector that was bound again does not answer")
	}
}

// TestAddressInUse: the error is the same as for listeners, and nothing is left.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := newOperated(t)
	taken := o.named("a")
	taken.Listen = l.Addr().String()
	err = o.Configure(t.Context(), &spec.All{Connectors: []spec.Connector{taken}})
	if a, ok := errors.AsType[*AddressError](err); !ok || !a.InUse || a.What != "connector a" {
		t.Errorf("%v", err)
	}
	o.want("after that")
	if err := o.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := o.Configure(t.Context(), &spec.All{Connectors: []spec.Connector{o.named("a")}}); !errors.Is(err, dataplane.ErrShutdown) {
		t.Errorf("after the end: %v", err)
	}
}

// TestMemoryForClients: a connector whose first client would find no memory does not come into
// service. The one that it would replace keeps its clients, and a reload says that it may be
// tried again.
func TestMemoryForClients(t *testing.T) {
	o := newOperated(t)
	o.start(o.named("a"))
	full, c := o.add("full").Live.Address.String(), o.dial(o.connectors.info("a").Live.Address.String())
	if err := echoCall(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for o.connectors.info("full").Live.Memory < dataplane.MinMemory {
		if err := echoCall(t.Context(), o.dial(full)); err != nil {
			t.Fatal(err)
		}
	}
	o.data.SetMemory(dataplane.MinMemory)
	before, stored := o.Connectors.List(), o.store.saved
	patient := o.named("a")
	patient.DialTimeout = time.Minute
	update := func() error {
		_, _, err := o.Connectors.Update(t.Context(), "a", func(c *spec.Connector) { c.DialTimeout = time.Minute }, UpdateOptions{})
		return err
	}
	errs := []error{
		update(),
		o.reload(patient),
		func() error { _, err := o.Connectors.Add(t.Context(), o.named("b")); return err }(),
	}
	for i, err := range errs {
		if !errors.As(err, new(*dataplane.NoMemoryError)) {
			t.Errorf("change %d: %v", i, err)
		}
		if all, ok := errors.AsType[ChangeErrors](err); ok && !all[0].Outside() {
			t.Errorf("change %d can't be tried again: %v", i, err)
		}
	}
	o.want("refused", "a config up", "full runtime up")
	for i, name := range []string{"a", "full"} {
		if k := o.connectors.info(name); k.Spec.DialTimeout != before[i].Spec.DialTimeout || k.Live.Since != before[i].Live.Since {
			t.Errorf("%+v became %+v", before[i], k)
		}
	}
	same(t, "stored", o.store.saved, stored)
	if err := echoCall(t.Context(), c); err != nil {
		t.Errorf("the old client: %v", err)
	}
	o.data.SetMemory(0)
	if err := update(); err != nil {
		t.Errorf("with memory: %v", err)
	}
}
