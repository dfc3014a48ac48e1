package adaptive

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

func anyClaims(t *rapid.T) []claim {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) claim {
		least := rapid.IntRange(1, 64).Draw(t, "least")
		return claim{
			weight: rapid.IntRange(1, settings.WeightLimit).Draw(t, "weight"),
			least:  least,
			most:   rapid.IntRange(least, settings.CreditsLimit).Draw(t, "most"),
			cost:   int64(rapid.IntRange(1, 1<<16).Draw(t, "cost")),
		}
	}), 1, 40).Draw(t, "claims")
}

// TestShare: within the bounds and the budget when that can be, as much as
// there is, by weight, and the same again.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := anyClaims(t)
		given := slices.Clone(claims)
		budget := rapid.Int64Range(0, total(claims, maxLevel)*5/4).Draw(t, "budget")
		least := total(claims, 0)
		d := share(claims, budget)
		if d.scarce != (least > budget) {
			t.Fatalf("scarce is %v: the minima take %d of %d", d.scarce, least, budget)
		}
		if again := share(slices.Clone(given), budget); again != d {
			t.Fatalf("%v and %v", d, again)
		}
		var ones, sum int64
		for i := range claims {
			c, n := &claims[i], claims[i].at(d.level)
			if lo, hi := given[i].least, given[i].most; !d.scarce && (n < lo || n > hi) {
				t.Fatalf("%d is not in %d..%d", n, lo, hi)
			}
			if n < 1 || (d.scarce && n > given[i].least) {
				t.Fatalf("scarce: %d for a minimum of %d", n, given[i].least)
			}
			ones += c.cost
			sum += int64(n) * c.cost
		}
		if sum > max(budget, ones) {
			t.Fatalf("%d bytes of %d", sum, budget)
		}
		if d.level < maxLevel && total(claims, d.level+1) <= budget {
			t.Fatal("more would fit")
		}
		checkMaxMin(t, claims, d.level)
	})
}

// checkMaxMin: who could do with more has as much per weight as anybody who
// has more than the least, but for less than one credit.
func checkMaxMin(t *rapid.T, claims []claim, level int64) {
	for i := range claims {
		a := &claims[i]
		n := a.at(level)
		if n == a.most {
			continue
		}
		for j := range claims {
			b := &claims[j]
			if m := b.at(level); m > b.least && m*a.weight >= (n+1)*b.weight {
				t.Fatalf("weight %d has %d of %d, weight %d has %d over %d", a.weight, n, a.most, b.weight, m, b.least)
			}
		}
	}
}

// TestShareMonotone: more budget takes nothing from anybody.
func TestShareMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := anyClaims(t)
		all := total(claims, maxLevel)
		small := rapid.Int64Range(0, all).Draw(t, "small")
		large := rapid.Int64Range(small, all).Draw(t, "large")
		for _, c := range claims {
			with := func(budget int64) int {
				d := share(slices.Clone(claims), budget)
				cl := d.claim(c)
				return cl.at(d.level)
			}
			if a, b := with(small), with(large); a > b {
				t.Fatalf("%d with %d bytes, %d with %d", a, small, b, large)
			}
		}
	})
}
