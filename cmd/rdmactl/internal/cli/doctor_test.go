package cli

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// gateways has three listeners on one port.
type gateways struct {
	rdmadv1.UnimplementedStatusServiceServer
	rdmadv1.UnimplementedListenerServiceServer
	rdmadv1.UnimplementedSettingsServiceServer
	rdmadv1.UnimplementedTelemetryServiceServer
}

func (gateways) GetStatus(context.Context, *rdmadv1.GetStatusRequest) (*rdmadv1.GetStatusResponse, error) {
	return &rdmadv1.GetStatusResponse{}, nil
}

func (gateways) ListListeners(context.Context, *rdmadv1.ListListenersRequest) (*rdmadv1.ListListenersResponse, error) {
	return &rdmadv1.ListListenersResponse{Listeners: []*rdmadv1.Listener{
		{Name: "a", Address: "192.0.2.1:20049"}, {Name: "b", Address: "192.0.2.2:20049"}, {Name: "c", Address: "[2001:db8::3]:20049"}, {Name: "d", Address: "192.0.2.1:1"},
	}}, nil
}

func (gateways) GetSettings(context.Context, *rdmadv1.GetSettingsRequest) (*rdmadv1.GetSettingsResponse, error) {
	return &rdmadv1.GetSettingsResponse{}, nil
}

func (gateways) AdviseSettings(context.Context, *rdmadv1.AdviseSettingsRequest) (*rdmadv1.AdviseSettingsResponse, error) {
	return &rdmadv1.AdviseSettingsResponse{}, nil
}

// TestListenerOfDoctor: of several listeners on a port, doctor looks at the settings of the one that it connects to.
func TestListenerOfDoctor(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s, served := grpc.NewServer(), make(chan error, 1)
	rdmadv1.RegisterStatusServiceServer(s, gateways{})
	rdmadv1.RegisterListenerServiceServer(s, gateways{})
	rdmadv1.RegisterSettingsServiceServer(s, gateways{})
	rdmadv1.RegisterTelemetryServiceServer(s, gateways{})
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		<-served
	}()
	d := &doctorCommand{app: &app{where: whereFlags{addr: "unix://" + l.Addr().String()}, timeout: time.Minute, silent: time.Minute}}
	for server, want := range map[string]string{"192.0.2.1": "a", "192.0.2.2": "b", "2001:db8::3": "c", "192.0.2.99": "a"} {
		if got, err := d.ask(t.Context(), netip.MustParseAddr(server), "20049"); err != nil || got.Listener != want {
			t.Errorf("%s: %+v, %v, want %s", server, got, err, want)
		}
	}
}
