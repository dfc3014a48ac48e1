package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// testConnectorVersion has an rdmad connect to the kernel's server for TCP
// clients, with version 2 on and then required.
func testConnectorVersion(t *testing.T, s *kernelServer) {
	var r *rdmad
	t.Cleanup(func() { // when it has stopped, and its log is whole
		if r != nil && !strings.Contains(r.process.Log(), "no common version") {
			t.Error("the log does not say why the second connection ended")
		}
	})
	r = startRdmadAs(t, t.TempDir(), func(r *rdmad) string {
		return r.exporting() + fmt.Sprintf("connectors: [{name: out, listen: \"127.0.0.1:0\", provider: softiwarp, target: %q}]\n"+
			"settings: {extensions: {v2: on}}\n", s.address)
	})
	var list struct {
		Connectors []struct {
			Address string `json:"address"`
		} `json:"connectors"`
	}
	r.ctl(t, &list, "connectors", "list")
	if len(list.Connectors) != 1 {
		t.Fatalf("connectors %+v, want one", list)
	}
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	null := func() error {
		t.Helper()
		c, err := rpctcp.Dial(ctx, list.Connectors[0].Address, rpctcp.ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, err = c.Call(ctx, 100003, 3, 0, nil, nil)
		return err
	}
	if err := null(); err != nil {
		t.Errorf("with version 2 on: %v", err)
	}
	if up := oneConnection(t, r); up.RPCVersion != 1 || strings.Contains(strings.Join(up.Extensions, " "), "v2") {
		t.Errorf("connection %+v, want one of version 1", up)
	}
	if e := r.effect(t, "extensions.v2=required"); e.Outcome != "PENDING_RECONNECT" || !strings.Contains(e.Reason, "version 1 is agreed on") {
		t.Errorf("required on a connection of version 1: %+v", e)
	}
	if err := null(); err == nil {
		t.Error("a call is answered although version 2 is required")
	}
}
