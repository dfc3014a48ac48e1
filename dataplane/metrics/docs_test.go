package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/metrics.md")

// sections of the page have the metrics with a prefix. A metric is in the first that fits.
var sections = []struct{ title, prefix string }{
	{"Calls by procedure", "rdmad_procedure_"},
	{"Clients", "rdmad_client_"},
	{"Forward services", "rdmad_forward_"},
	{"Services on TCP", "rdmad_tcp_"},
	{"Connectors", "rdmad_connector_"},
	{"Control plane and metrics port", "rdmad_port_"},
	{"Conditions", "rdmad_condition"},
	{"Configuration and certificates", "rdmad_config_"},
	{"Configuration and certificates", "rdmad_certificate_"},
	{"Fleet", "rdmad_fleet_"},
	{"Process", "rdmad_process_"},
	{"Process", "rdmad_build_"},
	{"Listeners", "rdmad_"},
}

// tables returns the tables of all metrics.
func tables() string {
	found := map[string][]definition{}
	for _, d := range catalogue {
		for _, s := range sections {
			if strings.HasPrefix(d.name, s.prefix) {
				found[s.title] = append(found[s.title], d)
				break
			}
		}
	}
	var b strings.Builder
	for i, s := range sections {
		if i > 0 && sections[i-1].title == s.title {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", s.title)
		slices.SortFunc(found[s.title], func(a, b definition) int { return strings.Compare(a.name, b.name) })
		for _, d := range found[s.title] {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.name, d.kind, strings.Join(d.labels, ", "), d.help)
		}
	}
	return b.String()
}

// alerts returns the table of the alerts.
func alerts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../configs/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| alert | severity | fires when | for | remedy |\n|---|---|---|---|---|\n")
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			fmt.Fprintf(&b, "| %s | %s | `%s` | %s | %s |\n", r.Alert, r.Labels["severity"], strings.ReplaceAll(r.Expr, "|", "\\|"), r.For, r.Annotations["remedy"])
		}
	}
	return b.String()
}

// The page has all alerts and all metrics, as the code has them.
func TestPage(t *testing.T) {
	const page, heading = "../../docs/metrics.md", "\n## Alerts\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), heading)
	if !ok {
		t.Fatalf("%s has no %q", page, heading)
	}
	want := alerts(t) + "\n## Metrics\n" + tables()
	if rest == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./dataplane/metrics -run TestPage -update", page)
	}
	if err := os.WriteFile(page, []byte(before+heading+want), 0o600); err != nil {
		t.Fatal(err)
	}
}
