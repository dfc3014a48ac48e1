package main

import (
	"errors"
	"log/slog"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// enough has memory for any number of listeners.
type enough struct{ manager.Bounds }

func (enough) CheckMemory(spec.Size, int) error { return nil }

// TestTooFewToAdd: without descriptors for a listener it is not added, and the error
// says what to raise.
func TestTooFewToAdd(t *testing.T) {
	p := testPlaces(t, 152)
	var counted []int
	data := dataplane.New(dataplane.Config{})
	defer data.Shutdown(t.Context())
	m := manager.New(manager.Config{
		Dataplane: manager.Over(data), Providers: []string{"softiwarp"}, Room: func(n int) error { return p.mayServe(n + 2) },
		Counted: func(n int) { counted = append(counted, n) }, Bounds: enough{}, Logger: slog.New(slog.DiscardHandler),
	})
	defer m.Close()
	add := func() error {
		_, err := m.Listeners.Add(t.Context(), spec.Listener{Name: "a", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "none"})
		return err
	}
	if few, ok := errors.AsType[*descriptors.TooFewError](add()); !ok || few.Least != 160 || few.Served != 3 {
		t.Error(add())
	}
	p.budget.Limit = 160
	if err := add(); !errors.Is(err, dataplane.ErrNotFound) || p.needs.served != 2 || len(counted) != 0 {
		t.Errorf("with enough, and without its service: %v, %d, counted %v", err, p.needs.served, counted)
	}
}

// ownDescriptors is what status says that rdmad itself may have.
func ownDescriptors(t *testing.T, r *running) int {
	t.Helper()
	control := have(grpc.NewClient(r.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer control.Close()
	res := have(rdmadv1.NewStatusServiceClient(control).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{}))(t)
	return int(res.GetDescriptors().GetOwn())
}

// TestAdditionsAreCounted: what operators add has descriptors of rdmad's own part
// from then on, also after a reload and a restart, and gives them back.
func TestAdditionsAreCounted(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	own := func() int { return ownDescriptors(t, r) }
	before := own()
	if _, err := r.manager.Services.Add(t.Context(), spec.Service{Name: "second", Echo: &spec.Echo{}}); err != nil {
		t.Fatal(err)
	}
	control := have(grpc.NewClient(r.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer control.Close()
	if _, err := rdmadv1.NewListenerServiceClient(control).AddListener(t.Context(), &rdmadv1.AddListenerRequest{
		Name: "added", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "second",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.manager.Connectors.Add(t.Context(), spec.Connector{Name: "out", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if own() != before+24 {
		t.Errorf("%d, %d before", own(), before)
	}
	if err := reconfigure(r.daemon, r.parse(""), 0); err != nil || own() != before+24 {
		t.Errorf("after a reload: %d, %v", own(), err)
	}
	r.end()
	r = startHere(t, dir, "")
	defer r.end()
	if own() != before+24 {
		t.Errorf("after a restart: %d", own())
	}
	if _, err := r.manager.Connectors.Remove(t.Context(), "out", 0); err != nil || own() != before+16 {
		t.Errorf("without the connector: %d, %v", own(), err)
	}
	if _, err := r.manager.Listeners.Remove(t.Context(), "added", 0); err != nil || own() != before+8 {
		t.Errorf("without the listener: %d, %v", own(), err)
	}
	if err := r.removeService("second"); err != nil || own() != before {
		t.Errorf("without the service: %d, %v", own(), err)
	}
}
