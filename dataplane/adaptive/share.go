package adaptive

import (
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Levels are credits per unit of weight, in steps of 1/unit.
const (
	unit     = 1 << 10
	maxLevel = settings.CreditsLimit * unit // at which no connection can take more
)

// claim is the claim of one connection in a sharing.
type claim struct {
	weight      int
	least, most int   // credits; least <= most
	cost        int64 // bytes per credit
}

// at returns what the claim gets at a level.
func (c *claim) at(level int64) int {
	return max(min(int(int64(c.weight)*level/unit), c.most), c.least)
}

// highest returns the highest level at which all claims together cost at most budget. If
// not even the minimum of each fits, ok is false and the level is 0.
func highest(claims []claim, budget int64) (level int64, ok bool) {
	if total(claims, 0) > budget {
		return 0, false
	}
	lo, hi := int64(0), int64(maxLevel)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if total(claims, mid) <= budget {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo, true
}

// total returns the cost of all claims at a level.
func total(claims []claim, level int64) (sum int64) {
	for i := range claims {
		sum += int64(claims[i].at(level)) * claims[i].cost
	}
	return sum
}

// deal is the result of a sharing: each connection gets what its claim gives at the level.
// In a scarce deal not even the minima fit, so they are divided instead.
type deal struct {
	level  int64
	scarce bool
}

// claim returns what the deal leaves of a claim: in a scarce one at least one credit,
// regardless of its cost, and at most the minimum.
func (d deal) claim(c claim) claim {
	if d.scarce {
		c.least, c.most = min(c.least, 1), c.least
	}
	return c
}

// share divides budget at the highest level that fits. It may change claims.
func share(claims []claim, budget int64) (d deal) {
	level, ok := highest(claims, budget)
	if ok {
		return deal{level: level}
	}
	d.scarce = true
	for i, c := range claims {
		claims[i] = d.claim(c)
	}
	d.level, _ = highest(claims, budget)
	return d
}
