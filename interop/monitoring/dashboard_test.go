package monitoring

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the part of a Grafana dashboard that has queries.
type dashboard struct {
	UID, Title  string
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []struct {
		ID                 int
		Type, Title        string
		Description        string
		GridPos            struct{ X, Y, W, H int }
		Targets            []struct{ Expr, RefID string }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Panels, Datasource json.RawMessage
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Panels have a place of their own, a meaning, a unit and queries.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID != "rdmad" || len(d.Panels) < 20 {
		t.Errorf("dashboard %q has %d panels", d.UID, len(d.Panels))
	}
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: another has the id, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if at[0] >= 24 || places[at] != "" {
					t.Fatalf("panels %q and %q are both at %v, or beyond the right edge", p.Title, places[at], at)
				}
				places[at] = p.Title
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Description == "" || p.FieldConfig.Defaults.Unit == "") {
			t.Errorf("panel %q has %d queries, description %q, unit %q", p.Title, len(p.Targets), p.Description, p.FieldConfig.Defaults.Unit)
		}
	}
}

// variables replaces the variables of Grafana as Grafana does if everything is selected.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$service", ".*", "$listener", ".*")

var labelValues = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// queries returns the queries of the dashboard by what has them. Annotations are without
// their threshold: they have a result only while something happens.
func (d *dashboard) queries(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			out["panel "+p.Title+" "+q.RefID] = variables.Replace(q.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		found := labelValues.FindStringSubmatch(q.Query)
		if found == nil {
			t.Fatalf("variable %s: %s", v.Name, q.Query)
		}
		out["variable "+v.Name] = variables.Replace(found[1])
	}
	for _, a := range d.Annotations.List {
		out["annotation "+a.Name] = operand(variables.Replace(a.Expr))
	}
	return out
}

var threshold = regexp.MustCompile(` (==|!=|>|<|>=|<=) -?[0-9.]+$`)

// operand returns a query without the comparison at its end. A query of a healthy rdmad has
// no result with it, and must have one without it.
func operand(expr string) string { return threshold.ReplaceAllString(expr, "") }
