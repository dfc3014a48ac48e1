package fleet

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSteps(t *testing.T) {
	for text, want := range map[string]string{"1": "1", " 10 %": "10%", "100%": "100%", "0": "0", "16384": "16384"} {
		if s, err := ParseStep(text); err != nil || s.String() != want {
			t.Errorf("%q: %v %v", text, s, err)
		}
	}
	for _, text := range []string{"", "%", "101%", "-1", "1.5", "x", "16385", "99999999999"} {
		if s, err := ParseStep(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

func TestPlansAreChecked(t *testing.T) {
	if err := DefaultPlan().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Plan){
		"waves: no more than 31 waves (there are 32)":                                        func(p *Plan) { p.Steps = make([]Step, 32) },
		"waves[0]: 101% is not a number of nodes, at most 16384, or a percentage":            func(p *Plan) { p.Steps = []Step{{Percent: 101}} },
		"bake: must be between 0s and 12h0m0s (is -1s)":                                      func(p *Plan) { p.Bake = -time.Second },
		"bake: must be between 0s and 12h0m0s (is 13h0m0s)":                                  func(p *Plan) { p.Bake = 13 * time.Hour },
		"apply_within: must be between 1s and 1h0m0s (is 0s)":                                func(p *Plan) { p.ApplyWithin = 0 },
		"max_errors_per_second: must be between 0 and 1e9 (is NaN)":                          func(p *Plan) { p.MaxErrors = math.NaN() },
		"max_p99_ratio: must be between 1 and 1e6, or 0 for no gate (is 0.5)":                func(p *Plan) { p.MaxP99 = 0.5 },
		"spread: label \"a b\" must be 1 to 63 letters, digits, '-', '_' and '.', and begin": func(p *Plan) { p.Spread = "a b" },
	} {
		p := DefaultPlan()
		change(p)
		if err := p.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	longest := Plan{Bake: MaxBake, ApplyWithin: MaxApplyWithin}
	if longest.Window() > 24*time.Hour {
		t.Errorf("the longest window is %v: nodes refuse that", longest.Window())
	}
}

func TestDefaultWaves(t *testing.T) {
	for nodes, want := range map[int]string{0: "[]", 1: "[1]", 2: "[1 1]", 3: "[1 1 1]", 5: "[1 2 2]", 10: "[1 4 5]", 100: "[1 9 40 50]", 1000: "[1 99 400 500]"} {
		var sizes []int
		for _, w := range DefaultPlan().waves(MaxWaves, 0, drawn(nodes, 1)) {
			sizes = append(sizes, len(w.Nodes))
		}
		if got := fmt.Sprint(sizes); got != want {
			t.Errorf("%d nodes: %s, want %s", nodes, got, want)
		}
	}
}

// drawn are candidates in groups by turns.
func drawn(nodes, groups int) (all []candidate) {
	for i := range nodes {
		all = append(all, candidate{fmt.Sprintf("n%05d", i), fmt.Sprintf("g%d", i%groups)})
	}
	return all
}

// Waves have each candidate once. Those of a group come in proportion to its size: of any number
// of first ones, a group never has more than its share, and one for each group.
func TestWavesAreSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 20), 1, 5).Draw(t, "sizes")
		var all []candidate
		for g, n := range sizes {
			for i := range n {
				all = append(all, candidate{fmt.Sprintf("g%d-%02d", g, i), fmt.Sprintf("g%d", g)})
			}
		}
		total := len(all)
		begun := rapid.IntRange(0, 10).Draw(t, "begun")
		plan := &Plan{Steps: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
			return rapid.SampledFrom([]Step{{Nodes: 1}, {Nodes: 7}, {Percent: 10}, {Percent: 50}, {Percent: 100}, {}}).Draw(t, "step")
		}), 0, 6).Draw(t, "steps")}
		seen, count, n := make(map[string]bool), make(map[byte]int), 0
		for _, w := range plan.waves(MaxWaves, begun, rapid.Permutation(all).Draw(t, "order")) {
			if len(w.Nodes) == 0 {
				t.Fatal("an empty wave")
			}
			for _, node := range w.Nodes {
				if seen[node] {
					t.Fatalf("%s twice", node)
				}
				seen[node] = true
				n++
				g := node[1]
				count[g]++
				share := float64(n) * float64(sizes[g-'0']) / float64(total)
				if float64(count[g]) > share+float64(len(sizes)) {
					t.Fatalf("%d of the first %d are of group %c, of sizes %v", count[g], n, g, sizes)
				}
			}
		}
		if len(seen) != total {
			t.Fatalf("%d of %d", len(seen), total)
		}
	})
}

// Groups of one size take turns.
func TestSpreadOverRacks(t *testing.T) {
	if got, want := strings.Join(spread(drawn(6, 3)), " "), "n00000 n00001 n00002 n00003 n00004 n00005"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := strings.Join(spread([]candidate{{"a1", "a"}, {"a2", "a"}, {"a3", "a"}, {"a4", "a"}, {"b1", "b"}, {"c1", "c"}}), " "), "a1 a2 b1 c1 a3 a4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
