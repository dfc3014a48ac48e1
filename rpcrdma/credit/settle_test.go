package credit

import "testing"

// TestSettle: a start with scarce receives grants what there is, and the rest
// is asked for again.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		posted, limit int
		ok            bool
	}{
		{0, Initial, false},
		{Slack, Initial, false},
		{Slack + 1, 1, true},
		{Slack + 5, 5, true},
		{Slack + Initial, Initial, true},
	} {
		var g Grants
		g.Start(64)
		n := g.Want()
		g.Confirm(n, c.posted)
		if ok := g.Settle(); ok != c.ok || g.Limit() != c.limit {
			t.Errorf("%d posted: %v with limit %d, want %v with %d", c.posted, ok, g.Limit(), c.ok, c.limit)
		}
		if want := Slack + Initial - c.posted; g.Want() != want {
			t.Errorf("%d posted: does not ask for the other %d", c.posted, want)
		}
	}
}
