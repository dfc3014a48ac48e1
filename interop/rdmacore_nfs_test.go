package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// rdmacoreParts are the parts of the matrix that stress the provider. TestNFS
// tests the service itself.
var rdmacoreParts = []part{
	{"sizes", testSmallSizes},
	{"attributes", testAttributes},
	{"direct", testDirect},
	{"fio 4k", testFio4K},
	{"remount", testRemount},
}

// TestRdmacoreNFS lets the kernel's NFSv3 client work on an rdmad in its own
// guest, over provider rdmacore and the kernel's software adapters.
func TestRdmacoreNFS(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			buildGuestRdmad(t, g)
			r := startGuestRdmad(t, g, onlyServer)
			parts := rdmacoreParts
			if *longFlag {
				parts = matrix
			}
			t.Run("mounted", func(t *testing.T) {
				m := newMount(t, g, r, overRDMA)
				m.do(t, "", parts)
				t.Run("remote invalidation", func(t *testing.T) { testInvalidation(t, m.work(t, "invalidation"), r) })
				if *longFlag { // a part uses no reply chunks
					m.checkStats(t)
				}
			})
			t.Run("connector", func(t *testing.T) { testAcceptOnConnector(t, r, a) })
			r.stop(t)
			if a.kind() == "siw" {
				t.Run("sinks", func(t *testing.T) { testNFSSinks(t, g) })
			}
			nothingLeft(t, g)
		})
	}
}

// withSinks returns the configuration with register_sinks, so that siw plays an
// adapter whose RDMA Reads need registrations.
func withSinks(config string) string {
	return config + "providers: {rdmacore: {register_sinks: true}}\n"
}

// testNFSSinks is the matrix, or of it what has a WRITE for each of the client's
// writes, with siw as such an adapter.
func testNFSSinks(t *testing.T, g *guest.Guest) {
	s := onlyServer
	s.name = "sinks"
	s.text = withSinks(s.config())
	r := startGuestRdmad(t, g, s)
	t.Run("mounted", func(t *testing.T) {
		parts := []part{{"direct", testDirect}}
		if *longFlag {
			parts = matrix
		}
		m := newMount(t, g, r, overRDMA)
		m.do(t, "sinks", parts)
	})
	r.stop(t)
}

// testAcceptOnConnector: on a connection that a connector made, peers can't be let
// invalidate what a device without memory windows registers, and the answer says so.
func testAcceptOnConnector(t *testing.T, r *guestRdmad, a adapter) {
	var added struct {
		Connector struct {
			Address string `json:"address"`
		} `json:"connector"`
	}
	r.ctl(t, &added, "connectors", "add", "out", "--provider", "rdmacore", "--listen", "127.0.0.1:0", "--target", fmt.Sprintf("%s:%d", guestAddress, r.nfs))
	client, err := r.g.Start("sleep 600 | nc 127.0.0.1 " + portOf(added.Connector.Address))
	if err != nil {
		t.Fatal(err)
	}
	id := r.connectionOf(t, "out")
	var answer struct{ Effects []effect }
	r.ctl(t, &answer, "settings", "set", "remote_invalidation.accept=on", "--scope", "connection/"+id)
	if len(answer.Effects) != 1 || answer.Effects[0].ConnectionID != id {
		t.Fatalf("effects %+v, want one on connection %s", answer.Effects, id)
	}
	e := answer.Effects[0]
	if unsupported := strings.HasPrefix(e.Reason, "remote_invalidation.accept: device "+a.name+" has no memory windows"); unsupported != !a.windows || (e.Outcome == "UNSUPPORTED") != !a.windows {
		t.Errorf("on %s: %+v", a.name, e)
	}
	client.Kill()
	ended(t, client)
	var removed any
	r.ctl(t, &removed, "connectors", "remove", "out")
}

// connectionOf waits until a listener or connector has a connection and returns
// its ID.
func (r *guestRdmad) connectionOf(t *testing.T, of string) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), adapterTime)
	defer cancel()
	for ctx.Err() == nil {
		for _, c := range connectionsOf(t, r) {
			if c.Listener == of {
				return c.ID
			}
		}
	}
	t.Fatalf("no connection of %s in %v", of, adapterTime)
	return ""
}
