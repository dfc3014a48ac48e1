package grpcapi_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// extension finds one by name.
func extension(t *testing.T, c rdmadv1.ExtensionServiceClient, scope, name string) *rdmadv1.Extension {
	t.Helper()
	res := have(c.ListExtensions(t.Context(), &rdmadv1.ListExtensionsRequest{Scope: scope}))(t)
	for _, e := range res.GetExtensions() {
		if e.GetSummary() == "" || e.GetSpecification() == "" || e.GetAvailable() != (e.GetReason() == "") {
			t.Errorf("%v", e)
		}
		if e.GetName() == name {
			return e
		}
	}
	t.Fatalf("no extension %s in %v", name, res)
	return nil
}

func TestExtensions(t *testing.T) {
	c := rdmadv1.NewExtensionServiceClient(start(t, smallPlane(), nil, 16).client)
	if e := extension(t, c, "", "msgp"); !e.GetAvailable() || e.GetEnabled() || e.GetSource() != "default" || e.GetConnections() != 0 {
		t.Errorf("at first %v", e)
	}
	dry, err := c.EnableExtensions(t.Context(), &rdmadv1.EnableExtensionsRequest{Names: []string{"msgp"}, DryRun: true})
	if err != nil || dry.GetRevision() != 0 || len(dry.GetEffects()) != 2 || extension(t, c, "", "msgp").GetEnabled() {
		t.Errorf("dry run: %v, %v", dry, err)
	}
	res, err := c.EnableExtensions(t.Context(), &rdmadv1.EnableExtensionsRequest{Names: []string{"msgp", "ccp"}, Scope: "listener/nfs"})
	if err != nil || res.GetRevision() != 1 || len(res.GetEffects()) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	if e := extension(t, c, "listener/nfs", "msgp"); !e.GetEnabled() || e.GetSource() != "listener/nfs" {
		t.Errorf("turned on: %v", e)
	}
	if e := extension(t, c, "", "msgp"); e.GetEnabled() {
		t.Errorf("turned on at the listener: global %v", e)
	}
	old := uint32(0)
	if _, err := c.DisableExtensions(t.Context(), &rdmadv1.DisableExtensionsRequest{Names: []string{"ccp"}, ExpectedRevision: &old}); status.Code(err) != codes.Aborted {
		t.Errorf("stale: %v", err)
	}
	if _, err := c.DisableExtensions(t.Context(), &rdmadv1.DisableExtensionsRequest{Names: []string{"ccp"}, Scope: "connection/1"}); err != nil {
		t.Fatal(err)
	}
	if on, off := extension(t, c, "connection/2", "ccp"), extension(t, c, "connection/1", "ccp"); !on.GetEnabled() || off.GetEnabled() {
		t.Errorf("turned off for one: %v, %v", on, off)
	}
}

func TestExtensionsRefused(t *testing.T) {
	c := rdmadv1.NewExtensionServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, r := range []struct {
		names []string
		scope string
		code  codes.Code
	}{
		{nil, "", codes.InvalidArgument},
		{[]string{"msgp", "msgp"}, "", codes.InvalidArgument},
		{[]string{"msgp", "teleport"}, "", codes.InvalidArgument},
		{[]string{"msgp"}, "nowhere", codes.InvalidArgument},
		{[]string{"msgp"}, "connection/9", codes.NotFound},
		{[]string{"send_ddp", "msgp"}, "", codes.InvalidArgument},
	} {
		if _, err := c.EnableExtensions(t.Context(), &rdmadv1.EnableExtensionsRequest{Names: r.names, Scope: r.scope}); status.Code(err) != r.code {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if _, err := c.ListExtensions(t.Context(), &rdmadv1.ListExtensionsRequest{Scope: "listener/none"}); status.Code(err) != codes.NotFound {
		t.Errorf("%v", err)
	}
	for _, window := range []time.Duration{0, time.Second - 1, 24*time.Hour + 1} { // 0 is no window, and would be a change for good
		_, enable := c.EnableExtensions(t.Context(), &rdmadv1.EnableExtensionsRequest{Names: []string{"msgp"}, ConfirmWithin: durationpb.New(window)})
		_, disable := c.DisableExtensions(t.Context(), &rdmadv1.DisableExtensionsRequest{Names: []string{"backchannel"}, ConfirmWithin: durationpb.New(window)})
		if status.Code(enable) != codes.InvalidArgument || status.Code(disable) != codes.InvalidArgument {
			t.Errorf("a window of %v: %v, %v", window, enable, disable)
		}
	}
	if e := extension(t, c, "", "msgp"); e.GetEnabled() {
		t.Error("half of a refused request was carried out")
	}
}

// TestExtensionsInForce: a connection shows what is in force on it, not what
// somebody wants.
func TestExtensionsInForce(t *testing.T) {
	p := smallPlane()
	b := start(t, p, nil, 16)
	c := rdmadv1.NewExtensionServiceClient(b.client)
	if _, err := c.EnableExtensions(t.Context(), &rdmadv1.EnableExtensionsRequest{Names: []string{"ccp", "msgp", "read_replies"}}); err != nil {
		t.Fatal(err)
	}
	p.Count("1", func(c *dataplane.ConnInfo) { c.Configuration.Spoken, c.Padding.Taken = true, true })
	all := have(rdmadv1.NewConnectionServiceClient(b.client).ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{}))(t)
	for i, want := range []string{"ccp msgp read_replies", "read_replies"} {
		if got := strings.Join(all.GetConnections()[i].GetExtensions(), " "); got != want {
			t.Errorf("connection %d: %s, want %s", i+1, got, want)
		}
	}
	if e := extension(t, c, "", "ccp"); e.GetConnections() != 1 {
		t.Errorf("%v", e)
	}
}
