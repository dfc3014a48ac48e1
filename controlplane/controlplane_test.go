package controlplane_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a control plane, after what is to be done before, until the test
// ends and returns a client.
func serve(t *testing.T, cfg controlplane.Config, before ...func(*controlplane.Controlplane)) (*controlplane.Controlplane, *grpc.ClientConn) {
	t.Helper()
	c := have(controlplane.New(t.Context(), cfg))(t)
	for _, f := range before {
		f(c)
	}
	served := make(chan error, 1)
	go func() { served <- c.Serve() }()
	target := c.Addr()
	if !strings.HasPrefix(target, "unix:") {
		target = "passthrough:///" + target
	}
	client := have(grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy()))(t)
	t.Cleanup(func() {
		client.Close()
		if err := c.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return c, client
}

func TestOverTCPAndUnix(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "control")} {
		plane := &planetest.Plane{}
		initial := rpcrdma.DefaultSettings()
		initial.InlineSendMax = 2048
		c, client := serve(t, controlplane.Config{
			Dataplane: plane, Listen: listen, Daemon: grpcapi.Daemon{Version: "v9"}, Initial: initial, Configured: live.KeySet(0).With(live.InlineSendMax),
		})
		plane.Use(c.Settings.Resolve)
		plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
		st, err := rdmadv1.NewStatusServiceClient(client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
		if err != nil || st.GetVersion() != "v9" || st.GetConnections() != 1 {
			t.Fatalf("%s: %v, %v", listen, st, err)
		}
		info, err := plane.Connection("1")
		if err != nil || info.InlineSend != 2048 {
			t.Errorf("%s: the connection sends %d inline, %v", listen, info.InlineSend, err)
		}
		got, err := rdmadv1.NewSettingsServiceClient(client).GetSettings(t.Context(), &rdmadv1.GetSettingsRequest{})
		if err != nil || got.GetValues()[0].GetSource() != "config" {
			t.Errorf("%s: %v, %v", listen, got, err)
		}
	}
}

// TestLive runs over the real data plane, though without a listener.
func TestLive(t *testing.T) {
	plane := dataplane.New(dataplane.Config{})
	registry := prometheus.NewRegistry()
	c, client := serve(t, controlplane.Config{Dataplane: plane, Listen: "127.0.0.1:0", Registerer: registry})
	plane.ApplySettings(dataplane.Update{Resolve: c.Settings.Resolve}, nil)
	max := uint32(7)
	res, err := rdmadv1.NewSettingsServiceClient(client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
		Settings: &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &max}},
	})
	if err != nil || res.GetRevision() != 1 || len(res.GetEffects()) != 0 {
		t.Fatalf("%v, %v", res, err)
	}
	if got := c.Settings.Resolve(dataplane.ConnKey{}).CreditsMax; got != 7 {
		t.Errorf("connections to come get %d credits", got)
	}
	if got := gauge(t, registry, "rdmad_settings_revision"); got != 1 {
		t.Errorf("the metric says revision %v", got)
	}
	if err := plane.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families := have(r.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestNewRefuses(t *testing.T) {
	bad := rpcrdma.DefaultSettings()
	bad.DDPMinChunk = 1 << 21
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "rdmad_settings_revision"}))
	for want, cfg := range map[string]controlplane.Config{
		"settings: ddp.min_chunk: must be between 0 and 1048576 bytes (is 2097152)": {Initial: bad, Listen: "127.0.0.1:0"},
		"control.listen 0.0.0.0:1: without TLS":                                     {Listen: "0.0.0.0:1"},
		"metrics of the control plane: ":                                            {Listen: "127.0.0.1:0", Registerer: taken},
	} {
		cfg.Dataplane = &planetest.Plane{}
		_, err := controlplane.New(t.Context(), cfg)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestShutdownWithoutServe: what was bound is let go.
func TestShutdownWithoutServe(t *testing.T) {
	// No connection ever comes from there, to have the port afterwards.
	c := have(controlplane.New(t.Context(), controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.2:0"}))(t)
	addr := c.Addr()
	must(t, c.Shutdown(t.Context()))
	if err := c.Serve(); err != nil {
		t.Errorf("Serve afterwards: %v", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the port is still taken: %v", err)
	}
	l.Close()
}

// Shutdown may come while Serve begins, or before.
func TestShutdownRacesServe(t *testing.T) {
	for range 20 {
		c, err := controlplane.New(t.Context(), controlplane.Config{
			Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Initial: rpcrdma.DefaultSettings(),
		})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- c.Serve() }()
		if err := c.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}
