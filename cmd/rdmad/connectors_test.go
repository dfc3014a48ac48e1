package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestConnector: a TCP client reaches the daemon's own listener through its
// connector, until the file has none any more.
func TestConnector(t *testing.T) {
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	with := fmt.Sprintf("connectors: [{name: out, listen: \"127.0.0.1:0\", provider: softiwarp, target: %q}]\n", r.listener("steady").Address)
	if err := r.reconfigure(t.Context(), r.parse(with), time.Second); err != nil {
		t.Fatal(err)
	}
	c, err := rpctcp.Dial(t.Context(), r.data.Connectors()[0].Address.String(), rpctcp.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	args := xdr.AppendOpaque(nil, make([]byte, 100_000))
	got, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcEcho, args, nil)
	if err != nil || !bytes.Equal(got, args) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	var listeners []string
	for _, i := range r.data.Connections() {
		listeners = append(listeners, i.Listener)
	}
	if len(listeners) != 2 {
		t.Errorf("connections of %q, want one of out and one of steady", listeners)
	}
	if err := r.reconfigure(t.Context(), r.parse(""), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcNull, nil, nil); err == nil || len(r.data.Connectors()) != 0 {
		t.Errorf("after the connector is gone: %v, %+v", err, r.data.Connectors())
	}
}

// TestConnectorsComeBack: one that was added carries calls before and after a
// restart, at the address that its clients know, and takes no listener's name.
func TestConnectorsComeBack(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	target := r.listener("steady").Address.String()
	added, err := r.connect.AddConnector(t.Context(), manager.ConnectorSpec{Name: "out", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: target})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.connect.AddConnector(t.Context(), manager.ConnectorSpec{Name: "steady", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: target}); !errors.Is(err, dataplane.ErrExists) {
		t.Errorf("with the name of a listener: %v", err)
	}
	call := func() {
		t.Helper()
		c, err := rpctcp.Dial(t.Context(), added.Address.String(), rpctcp.ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcNull, nil, nil); err != nil {
			t.Error(err)
		}
	}
	call()
	r.end()
	r = startHere(t, dir, fmt.Sprintf("  - {name: again, provider: softiwarp, address: %q, service: test}\n", target))
	defer r.end()
	if all := r.connect.Connectors(); len(all) != 1 || all[0].Origin != manager.FromOperator || all[0].Address != added.Address {
		t.Fatalf("%+v", all)
	}
	call()
}
