package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
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
