package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// patient is a daemon whose conditions are checked in every place that shows them.
type patient struct {
	*daemon
	t      *testing.T
	dir    string
	client *grpc.ClientConn

	mu    sync.Mutex
	spoke sync.Cond
	told  string // the service manager's status line
}

// admit runs a daemon of a file, which may have DIR for its folder, until the test
// ends.
func admit(t *testing.T, dir, text string) *patient {
	t.Helper()
	p := &patient{t: t, dir: dir}
	p.spoke.L = &p.mu
	d, err := bind(t.Context(), p.parse(text), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		d.close()
		t.Fatal(err)
	}
	d.start()
	p.daemon = d
	ctx, cancel := context.WithCancel(context.Background())
	d.running.Go(func() {
		d.health.report(ctx, func(line string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.told = line
			p.spoke.Broadcast()
		})
	})
	if p.client, err = grpc.NewClient(d.control.Addr(), grpc.WithTransportCredentials(p.credentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.client.Close()
		http.DefaultClient.CloseIdleConnections()
		cancel()
		d.stop(time.Minute)
	})
	return p
}

// credentials returns the credentials for the control plane: without TLS, or with the files
// that authorize made.
func (p *patient) credentials() credentials.TransportCredentials {
	ca := filepath.Join(p.dir, "ca.pem")
	if _, err := os.Stat(ca); err != nil {
		return insecure.NewCredentials()
	}
	c, err := authtest.Client(ca, filepath.Join(p.dir, "client.pem"), filepath.Join(p.dir, "client.key"))
	p.must(err)
	return credentials.NewTLS(c)
}

func (p *patient) parse(text string) *config.Config {
	p.t.Helper()
	text = "state: {path: DIR/state}\nmetrics: {listen: \"127.0.0.1:0\"}\n" + text
	if !strings.Contains(text, "control:") {
		text = "control: {listen: \"127.0.0.1:0\"}\n" + text
	}
	return have(config.Parse("rdmad.yaml", []byte(strings.ReplaceAll(text, "DIR", p.dir)), config.Options{Providers: []string{"softiwarp"}}))(p.t)
}

// expect waits until a thing has a reason, and checks that every place shows it.
func (p *patient) expect(name string, want *conditions.Reason) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	w := p.health.known.Watch()
	defer w.Close()
	p.health.prober.Look()
	var all conditions.List
	for all.Find(want.Kind, name) == nil || all.Find(want.Kind, name).Reason != want {
		if !w.Next(ctx.Done()) {
			p.t.Fatalf("%s/%s is not %s: %v", want.Kind, name, want.Name, all)
		}
		all = p.health.known.List()
	}
	p.showsInAPI(name, want)
	p.showsInHealth(name, want)
	p.showsOverHTTP(name, want)
	p.mu.Lock()
	defer p.mu.Unlock()
	for want.Status != conditions.OK && !strings.Contains(p.told, "not OK") || want.Status == conditions.Failed && !strings.Contains(p.told, "FAILED") {
		p.spoke.Wait() // the service manager learns of it soon
	}
}

// showsInAPI looks at what rdmactl conditions and status print.
func (p *patient) showsInAPI(name string, want *conditions.Reason) {
	p.t.Helper()
	c := rdmadv1.NewStatusServiceClient(p.client)
	list := have(c.ListConditions(p.t.Context(), &rdmadv1.ListConditionsRequest{}))(p.t)
	found := false
	for _, one := range list.GetConditions() {
		if one.GetKind() == string(want.Kind) && one.GetName() == name {
			found = one.GetReason() == want.Name && one.GetStatus().String() == want.Status.String() && (one.GetRemedy() == "") == (want.Status == conditions.OK)
		}
	}
	if !found || list.GetHealthy() && want.Status != conditions.OK {
		p.t.Errorf("%s/%s is not %s in %v", want.Kind, name, want.Name, list)
	}
	if s, err := c.GetStatus(p.t.Context(), &rdmadv1.GetStatusRequest{}); err != nil || s.GetHealthy() != (s.GetWorstCondition() == nil) || s.GetHealthy() && want.Status != conditions.OK {
		p.t.Errorf("status says %v, %v", s, err)
	}
}

func (p *patient) showsInHealth(name string, want *conditions.Reason) {
	p.t.Helper()
	h := healthpb.NewHealthClient(p.client)
	r, err := h.Check(p.t.Context(), &healthpb.HealthCheckRequest{Service: string(want.Kind) + "/" + name})
	if err != nil || (r.GetStatus() == healthpb.HealthCheckResponse_SERVING) != (want.Status == conditions.OK) {
		p.t.Errorf("gRPC health of %s/%s: %v, %v", want.Kind, name, r, err)
	}
	r, err = h.Check(p.t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || want.Status == conditions.Failed && r.GetStatus() == healthpb.HealthCheckResponse_SERVING {
		p.t.Errorf("gRPC health of rdmad: %v, %v", r, err)
	}
	if err := p.works(p.t.Context()); err != nil {
		p.t.Errorf("the watchdog would end rdmad: %v", err)
	}
}

func (p *patient) showsOverHTTP(name string, want *conditions.Reason) {
	p.t.Helper()
	code, body := p.get("/healthz")
	line := fmt.Sprintf("%s/%s %s %s\n", want.Kind, name, want.Status, want.Name)
	if strings.Contains(body, line) != (want.Status != conditions.OK) || want.Status == conditions.Failed && code != http.StatusServiceUnavailable {
		p.t.Errorf("/healthz answers %d %q", code, body)
	}
	_, body = p.get("/metrics")
	if line := fmt.Sprintf("rdmad_condition{kind=%q,name=%q,status=%q} 1\n", want.Kind, name, want.Status); !strings.Contains(body, line) {
		p.t.Errorf("the metrics have no %s", line)
	}
}

func (p *patient) get(path string) (int, string) {
	p.t.Helper()
	r, err := http.Get("http://" + p.metricsOn.Addr().String() + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	body := have(io.ReadAll(r.Body))(p.t)
	return r.StatusCode, string(body)
}

// well checks that everything is healthy, as at first.
func (p *patient) well() {
	p.t.Helper()
	if code, body := p.get("/healthz"); code != http.StatusOK || body != "ok\n" {
		p.t.Errorf("/healthz answers %d %q", code, body)
	}
	if code, body := p.get("/readyz"); code != http.StatusOK || body != "ok\n" {
		p.t.Errorf("/readyz answers %d %q", code, body)
	}
}

func (p *patient) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

const echoListener = `
services: [{name: test, echo: {}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}]
`
