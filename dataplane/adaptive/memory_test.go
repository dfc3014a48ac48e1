package adaptive

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		what   string
		budget int64
		pools  []Pool
		want   []int64
	}{
		{"alone", 100, []Pool{{Least: 4}}, []int64{100}},
		{"both idle", 100, []Pool{{Least: 4}, {Least: 4}}, []int64{50, 50}},
		{"one busy", 100, []Pool{{Least: 4, Registered: 45}, {Least: 4}}, []int64{90 + 3, 4 + 3}},
		{"grants first", 100, []Pool{{Least: 4, Registered: 50}, {Least: 4, Need: 60}}, []int64{40, 60}},
		{"grants of both", 100, []Pool{{Least: 4, Need: 80}, {Least: 4, Need: 30}}, []int64{70, 30}},
		{"the least is more", 100, []Pool{{Least: 80}, {Least: 80, Need: 90}}, []int64{80, 80}},
	} {
		Split(c.pools, c.budget)
		for i, want := range c.want {
			if got := c.pools[i].Limit; got != want {
				t.Errorf("%s: pool %d has %d, want %d", c.what, i, got, want)
			}
		}
	}
}

// TestSplitBudget: all of the budget is given, and no more, unless bounds or
// what pools can't do without say otherwise.
func TestSplitBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Int64Range(0, 1000)
		pools := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Pool {
			return Pool{Least: number.Draw(t, "least"), Need: number.Draw(t, "need"), Registered: number.Draw(t, "registered")}
		}), 1, 10).Draw(t, "pools")
		budget := rapid.Int64Range(0, 20_000).Draw(t, "budget")
		again := slices.Clone(pools)
		Split(pools, budget)
		Split(again, budget)
		var sum, least int64
		for i := range pools {
			if pools[i] != again[i] {
				t.Fatal("not the same again")
			}
			if pools[i].Limit < pools[i].Least {
				t.Fatalf("%+v", pools[i])
			}
			sum += pools[i].Limit
			least += pools[i].Least
		}
		if n := int64(len(pools)); sum > max(budget, least) || sum <= budget-n {
			t.Fatalf("%d of %d given to %d pools", sum, budget, n)
		}
	})
}
