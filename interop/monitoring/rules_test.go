package monitoring

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestPromtool(t *testing.T) {
	promtool := tool(t, "promtool")
	run(t, promtool, "check", "rules", "--lint-fatal", rulesFile, alertsFile)
	run(t, promtool, "test", "rules", "testdata/alerts_test.yaml")
}

// rule is a rule of Prometheus.
type rule struct {
	Record, Alert, Expr string
	Labels, Annotations map[string]string
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rules returns the rules of a file.
func rules(t *testing.T, file string) (out []rule) {
	t.Helper()
	var f struct{ Groups []struct{ Rules []rule } }
	parse(t, file, &f)
	for _, g := range f.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// Each alert has a test in which it fires, and one in which it does not fire yet.
func TestEachAlertIsTested(t *testing.T) {
	var tests struct {
		Tests []struct {
			Alerts []struct {
				Name     string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	parse(t, "testdata/alerts_test.yaml", &tests)
	fires, waits := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, a := range test.Alerts {
			fires[a.Name] = fires[a.Name] || len(a.Expected) > 0
			waits[a.Name] = waits[a.Name] || len(a.Expected) == 0
		}
	}
	for _, r := range rules(t, alertsFile) {
		atOnce := r.Alert == "RdmadCertificateExpiresSoon" // its test has an instance that is well
		if !fires[r.Alert] || !waits[r.Alert] && !atOnce {
			t.Errorf("%s: a test in which it fires: %v, in which it does not: %v", r.Alert, fires[r.Alert], waits[r.Alert])
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" || r.Annotations["summary"] == "" || r.Annotations["remedy"] == "" {
			t.Errorf("%s: severity %q, annotations %v", r.Alert, s, r.Annotations)
		}
	}
}
