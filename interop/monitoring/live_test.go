package monitoring

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

const (
	// nas is the configuration of a server that the other rdmad uses.
	nas = `control: {listen: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: export}]
services: [{name: export, nfs: {path: ./export, tcp_listen: "127.0.0.1:0"}}]
`
	// gateway is the configuration of a rdmad with something of everything.
	gateway = `control: {listen: "127.0.0.1:0", tls: {cert: rdmad.pem, key: rdmad.key, client_ca: ca.pem}, roles: [{role: admin, certificates: [rdmad]}]}
metrics: {listen: "127.0.0.1:0", web_config: web.yml}
listeners:
  - {name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: export}
  - {name: gateway, provider: softiwarp, address: "127.0.0.1:0", service: nas}
  - {name: echo, provider: softiwarp, address: "127.0.0.1:0", service: test}
services:
  - {name: export, nfs: {path: ./export, tcp_listen: "127.0.0.1:0"}}
  - {name: nas, forward: {address: %q}}
  - {name: test, echo: {}}
connectors: [{name: out, listen: "127.0.0.1:0", provider: softiwarp, target: %q}]
fleet: {endpoints: [%q], node: gateway}
`
	prometheusConfig = `global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [%q, %q]
scrape_configs:
  - {job_name: rdmad, static_configs: [{targets: [%q]}]}
  - job_name: rdmad with TLS
    static_configs: [{targets: [%q], labels: {job: rdmad}}]
    scheme: https
    tls_config: {ca_file: %q}
    basic_auth: {username: prometheus, password: fakepassword}
`
	// web is the web configuration of the gateway's metrics.
	web = `tls_server_config: {cert_file: rdmad.pem, key_file: rdmad.key}
basic_auth_users: {prometheus: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}
`
)

// fileSize is the size of the file that clients read and write, in bytes.
const fileSize = 64 << 10

// TestQueries runs each query of the rules, of the alerts and of the dashboard in Prometheus
// with classic and with native histograms, which scrapes two rdmads under load. Each query has
// a result, and no alert is active.
func TestQueries(t *testing.T) {
	program := tool(t, "prometheus")
	rdmad, rdmactl := build(t, "rdmad"), build(t, "rdmactl")
	server := start(t, rdmad, exportDir(t), nas)
	dir := exportDir(t)
	ca := certify(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "web.yml"), []byte(web), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, rdmad, dir, fmt.Sprintf(gateway, server.address(t, "service"), server.address(t, "listener nfs"), etcdtest.Start(t).Endpoint))
	work := load(t, d, rdmactl)
	work() // everything was used before the first scrape
	config := fmt.Sprintf(prometheusConfig,
		absolute(t, rulesFile), absolute(t, alertsFile), server.address(t, "metrics"), d.address(t, "metrics"), filepath.Join(dir, "ca.pem"))
	for name, options := range map[string][]string{"classic": nil, "native": {"--enable-feature=native-histograms"}} {
		t.Run(name, func(t *testing.T) { startPrometheus(t, program, config, options...).expectAnswers(t, work) })
	}
	expectDocumented(t, d.address(t, "metrics"), ca)
}

// expectAnswers runs all queries until each has had a result and all is well: on a busy machine a
// scrape may take too long.
func (p *prometheus) expectAnswers(t *testing.T, work func()) {
	t.Helper()
	left := allQueries(t)
	if len(left) < 90 {
		t.Fatalf("%d queries only", len(left))
	}
	deadline := time.After(startTime)
	var ills []string
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case <-tick.C:
			work()
			for name, expr := range left {
				if p.answers(t, expr) {
					delete(left, name)
				}
			}
			if ills = p.ills(t); len(left)+len(ills) == 0 {
				return
			}
		case <-deadline:
			for name, expr := range left {
				t.Errorf("%s has no result: %s", name, expr)
			}
			for _, ill := range ills {
				t.Error(ill)
			}
			return
		}
	}
}

// expectDocumented checks that docs/metrics.md has each metric of a rdmad.
func expectDocumented(t *testing.T, address string, ca *x509.CertPool) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("prometheus", "fakepassword")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca, MinVersion: tls.VersionTLS13}}}
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(body)) {
		rest, found := strings.CutPrefix(line, "# TYPE rdmad_")
		if !found {
			continue
		}
		n++
		if name, _, _ := strings.Cut(rest, " "); !strings.Contains(string(page), "`rdmad_"+name+"`") {
			t.Errorf("docs/metrics.md lacks rdmad_%s", name)
		}
	}
	if n < 50 {
		t.Errorf("%d metrics only", n)
	}
}

// allQueries returns all queries by what has them.
func allQueries(t *testing.T) map[string]string {
	t.Helper()
	d := readDashboard(t)
	out := d.queries(t)
	out["the clients' address"] = `rdmad_client_calls_total{client="127.0.0.1"} > 0`
	for _, r := range rules(t, rulesFile) {
		out["rule "+r.Record] = r.Record
	}
	for _, r := range rules(t, alertsFile) {
		out["alert "+r.Alert] = operand(r.Expr)
	}
	return out
}

// exportDir returns a directory with an export of one file.
func exportDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "export"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "export/file"), nfstest.Data(0, fileSize), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// certify makes ca.pem, and rdmad.pem with rdmad.key. It returns a pool of the CA.
func certify(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	ca, err := authtest.NewCA(dir)
	if err == nil {
		err = ca.Issue("rdmad", 90*24*time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatalf("ca.pem: %v", err)
	}
	return pool
}

// load starts a benchmark of the echo service, which runs until the test ends, and connects
// NFS clients in each way. work makes some calls of theirs.
func load(t *testing.T, d *daemon, rdmactl string) (work func()) {
	t.Helper()
	bench, err := child.Start(exec.Command(rdmactl, "bench", d.address(t, "listener echo"), "--op", "read", "--size", "8192", "--depth", "2", "--duration", "10m"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bench.Kill)
	auth := nfstest.User(0, 0)
	provider, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	var clients []*nfstest.Client3
	add := func(c nfstest.Carrier) {
		client := &nfstest.Client3{T: t, Carrier: c}
		client.Mount("/")
		clients = append(clients, client)
	}
	for _, name := range []string{"listener nfs", "listener gateway"} {
		c, err := rpcrdma.Dial(t.Context(), provider, d.address(t, name), rpcrdma.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		add(nfstest.RDMA{Client: c, Auth: auth})
	}
	for _, name := range []string{"service", "connector"} {
		c, err := rpctcp.Dial(t.Context(), d.address(t, name), rpctcp.ClientConfig{Cred: auth})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		add(nfstest.TCP{Client: c, Auth: auth})
	}
	return func() {
		for _, c := range clients {
			file := c.Lookup("file")
			c.Read(file, 0, fileSize, false)
			c.Write(file, 0, fileSize, false)
		}
	}
}

// prometheus is a running Prometheus.
type prometheus struct {
	url string
	log string // file
}

// startPrometheus starts Prometheus with further options and waits until it is ready.
func startPrometheus(t *testing.T, program, config string, options ...string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	address, kept, err := child.KeepPort() // Prometheus does not say which port the system chose
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	p := &prometheus{url: "http://" + address, log: filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, append(options, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if r, err := http.Get(p.url + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return p
			}
		}
		select {
		case <-tick.C:
		case <-process.Done():
			t.Fatalf("Prometheus did not start: %v\n%s", process.Wait(), p.text())
		case <-ctx.Done():
			t.Fatalf("Prometheus is not ready:\n%s", p.text())
		}
	}
}

func (p *prometheus) text() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

// get asks Prometheus' API.
func (p *prometheus) get(t *testing.T, path string, into any) {
	t.Helper()
	r, err := http.Get(p.url + "/api/v1/" + path)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.text())
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	answer := struct {
		Status string
		Data   any
	}{Data: into}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v, %s", path, err, body)
	}
}

// answers reports whether a query has a result with a number or a native histogram.
func (p *prometheus) answers(t *testing.T, expr string) bool {
	t.Helper()
	var data struct {
		Result []struct{ Value, Histogram [2]any }
	}
	p.get(t, "query?query="+url.QueryEscape(expr), &data)
	for _, r := range data.Result {
		if r.Histogram[1] != nil {
			return true
		}
		if v, ok := r.Value[1].(string); ok {
			if _, err := strconv.ParseFloat(v, 64); err == nil && !strings.Contains(v, "NaN") {
				return true
			}
		}
	}
	return false
}

// ills returns the rules that Prometheus could not evaluate, the rdmads that it could not scrape,
// and the alerts that are active.
func (p *prometheus) ills(t *testing.T) (all []string) {
	t.Helper()
	ill := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	p.get(t, "rules", &data)
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" || r.State != "" && r.State != "inactive" {
				ill("rule %s: health %s, state %s, error %s", r.Name, r.Health, r.State, r.LastError)
			}
		}
	}
	if want := len(rules(t, rulesFile)) + len(rules(t, alertsFile)); n != want {
		ill("Prometheus has %d rules, want %d", n, want)
	}
	var targets struct {
		ActiveTargets []struct{ ScrapeURL, Health, LastError string }
	}
	p.get(t, "targets", &targets)
	for _, target := range targets.ActiveTargets {
		if target.Health != "up" {
			ill("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
		}
	}
	return all
}
