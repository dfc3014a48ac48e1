package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestConnector: a TCP client reaches the daemon's own listener through its
// connector, until the file has none any more.
func TestConnector(t *testing.T) {
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	with := fmt.Sprintf("connectors: [{name: out, listen: \"127.0.0.1:0\", provider: softiwarp, target: %q}]\n", r.listener("steady").Live.Address)
	must(t, reconfigure(r.daemon, r.parse(with), time.Second))
	c := have(rpctcp.Dial(t.Context(), r.data.Connectors()[0].Address.String(), rpctcp.ClientConfig{}))(t)
	defer c.Close()
	load := fleetLoad(r.counters())
	args := xdr.AppendOpaque(nil, make([]byte, 100_000))
	got, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcEcho, args, nil)
	if err != nil || !bytes.Equal(got, args) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	served := map[string]bool{}
	for _, i := range r.data.Connections() {
		served[i.Listener] = served[i.Listener] || i.Stats.Calls > 0
	}
	// The probe of the connector's target may be there as well.
	if want := map[string]bool{"out": true, "steady": true}; !maps.Equal(served, want) {
		t.Errorf("connections with calls: %v, want %v", served, want)
	}
	if l := load(time.Now()); l.Calls == 0 || l.P99 == 0 || l.Connections < 2 {
		t.Errorf("load for the fleet: %+v", l)
	}
	must(t, reconfigure(r.daemon, r.parse(""), time.Second))
	if _, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcNull, nil, nil); err == nil || len(r.data.Connectors()) != 0 {
		t.Errorf("after the connector is gone: %v, %+v", err, r.data.Connectors())
	}
}

// TestConnectorsComeBack: one that was added carries calls before and after a
// restart, at the address that its clients know, and takes no listener's name.
func TestConnectorsComeBack(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	target := r.listener("steady").Live.Address.String()
	added := have(r.manager.Connectors.Add(t.Context(), spec.Connector{Name: "out", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: target}))(t)
	if _, err := r.manager.Connectors.Add(t.Context(), spec.Connector{Name: "steady", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: target}); !errors.Is(err, dataplane.ErrExists) {
		t.Errorf("with the name of a listener: %v", err)
	}
	call := func() {
		t.Helper()
		c := have(rpctcp.Dial(t.Context(), added.Live.Address.String(), rpctcp.ClientConfig{}))(t)
		defer c.Close()
		if _, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcNull, nil, nil); err != nil {
			t.Error(err)
		}
	}
	call()
	r.end()
	// An earlier rdmad had a file for connectors alone.
	one, old := filepath.Join(dir, "state", "listeners.json"), filepath.Join(dir, "state", "connectors.json")
	must(t, os.Rename(one, old))
	r = startHere(t, dir, fmt.Sprintf("  - {name: again, provider: softiwarp, address: %q, service: test}\n", target))
	defer r.end()
	if all := r.manager.Connectors.List(); len(all) != 1 || all[0].Origin != manager.FromOperator || all[0].Live.Address != added.Live.Address {
		t.Fatalf("%+v", all)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file was not taken over: %v", err)
	}
	call()
}
