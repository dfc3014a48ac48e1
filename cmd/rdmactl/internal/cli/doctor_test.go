package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// gateways has listeners at several addresses on one port.
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
		{Name: "e", Address: "[2001:db8::5]:7"}, {Name: "f", Address: "[::]:7"}, {Name: "g", Address: "0.0.0.0:7"},
		{Name: "h", Address: "[fe80::1%eth0]:8"}, {Name: "i", Address: "[fe80::2%eth0]:8"}, {Name: "j", Address: "192.0.2.1:9"}, {Name: "k", Address: "[::]:9"},
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
	for at, want := range map[string]string{
		"192.0.2.1:20049": "a", "192.0.2.2:20049": "b", "[2001:db8::3]:20049": "c", "192.0.2.99:20049": "a",
		"192.0.2.1:7": "g", "[2001:db8::5]:7": "e", "[2001:db8::6]:7": "f", "[fe80::2%eth7]:8": "i", "192.0.2.2:9": "k",
	} {
		server := netip.MustParseAddrPort(at)
		if got, err := d.ask(t.Context(), server.Addr(), fmt.Sprint(server.Port())); err != nil || got.Listener != want {
			t.Errorf("%s: %+v, %v, want %s", at, got, err, want)
		}
	}
}
