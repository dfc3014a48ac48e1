package main

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// refusing is a manager that adds nothing.
type refusing struct{ manager.API }

var errRefused = errors.New("refused")

func (refusing) AddListener(context.Context, manager.ListenerSpec) (manager.ListenerInfo, error) {
	return manager.ListenerInfo{}, errRefused
}

// TestTooFewToAdd: without descriptors for a listener it is not added, and the error
// says what to raise.
func TestTooFewToAdd(t *testing.T) {
	p := testPlaces(t, 152)
	c := &counter{places: p, there: func() int { return 2 }, change: func() {}}
	_, err := countedManager{refusing{}, c}.AddListener(t.Context(), manager.ListenerSpec{})
	if few, ok := errors.AsType[*descriptors.TooFewError](err); !ok || few.Least != 160 || few.Served != 3 {
		t.Error(err)
	}
	p.budget.Limit = 160
	if _, err := (countedManager{refusing{}, c}).AddListener(t.Context(), manager.ListenerSpec{}); !errors.Is(err, errRefused) || p.served != 2 {
		t.Errorf("with enough: %v, %d", err, p.served)
	}
}

// ownDescriptors is what status says that rdmad itself may have.
func ownDescriptors(t *testing.T, r *running) int {
	t.Helper()
	control, err := grpc.NewClient(r.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	res, err := rdmadv1.NewStatusServiceClient(control).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return int(res.GetDescriptors().GetOwn())
}

// TestAdditionsAreCounted: what operators add has descriptors of rdmad's own part
// from then on, also after a reload and a restart, and gives them back.
func TestAdditionsAreCounted(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	own := func() int { return ownDescriptors(t, r) }
	before := own()
	m := countedManager{r.manager, r.counter}
	if _, err := m.AddService(t.Context(), manager.ServiceSpec{Name: "second", Echo: &manager.EchoSpec{}}); err != nil {
		t.Fatal(err)
	}
	control, err := grpc.NewClient(r.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if _, err := rdmadv1.NewListenerServiceClient(control).AddListener(t.Context(), &rdmadv1.AddListenerRequest{
		Name: "added", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "second",
	}); err != nil {
		t.Fatal(err)
	}
	s := countedConnectors{r.connect, r.counter}
	if _, err := s.AddConnector(t.Context(), manager.ConnectorSpec{Name: "out", Listen: "127.0.0.1:0", Provider: "softiwarp", Target: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	if own() != before+24 {
		t.Errorf("%d, %d before", own(), before)
	}
	if err := r.reconfigure(t.Context(), r.parse(""), 0); err != nil || own() != before+24 {
		t.Errorf("after a reload: %d, %v", own(), err)
	}
	r.end()
	r = startHere(t, dir, "")
	defer r.end()
	if own() != before+24 {
		t.Errorf("after a restart: %d", own())
	}
	m, s = countedManager{r.manager, r.counter}, countedConnectors{r.connect, r.counter}
	if _, err := s.RemoveConnector("out", 0); err != nil || own() != before+16 {
		t.Errorf("without the connector: %d, %v", own(), err)
	}
	if _, err := m.RemoveListener("added", 0); err != nil || own() != before+8 {
		t.Errorf("without the listener: %d, %v", own(), err)
	}
	if err := m.RemoveService("second", 0); err != nil || own() != before {
		t.Errorf("without the service: %d, %v", own(), err)
	}
}
