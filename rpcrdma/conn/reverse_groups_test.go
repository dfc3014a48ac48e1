package conn

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// groupSettings are those of an end with few credits in both directions.
func groupSettings(forward, reverse int) settings.Settings {
	s := continuing()
	s.CreditsMax, s.CreditsBackchannel = uint32(forward), uint32(reverse)
	return s
}

// meet lets both directions learn their first grant.
func meet(ends []*duplexEnd) {
	for _, e := range ends {
		e.call(40, 24)
	}
	drain(ends, func(int) int { return 0 })
}

func stepsOf(ends []*duplexEnd, reply func() int) []func() {
	return append(ends[0].steps(ends[1], reply), ends[1].steps(ends[0], reply)...)
}

func drain(ends []*duplexEnd, choose func(n int) int) {
	for all := stepsOf(ends, func() int { return 24 }); len(all) > 0; all = stepsOf(ends, func() int { return 24 }) {
		all[choose(len(all))]()
	}
}

// settledEnds fails unless everything came to its end and nothing was refused.
func settledEnds(t fataler, ends []*duplexEnd) {
	t.Helper()
	for _, e := range ends {
		e.check()
		if e.dead || len(e.open) > 0 || e.q.spend.InFlight() != 0 || e.q.spend.Spare() != 0 || e.s.grants.Held() != 0 || len(e.s.xids) != 0 || len(e.q.sent)+len(e.q.debts) != 0 || e.q.gather.Open || e.s.xmit.gather.Open {
			t.Fatalf("server %v, dead %v: %d calls open, %d in flight, %d spare, %d held; deadlock?", e.server, e.dead, len(e.open), e.q.spend.InFlight(), e.q.spend.Spare(), e.s.grants.Held())
		}
		if n := e.s.Counters.GroupsRefused + e.s.Counters.Complaints + e.q.Counters.GroupsRefused; n != 0 {
			t.Fatalf("server %v: %d groups refused", e.server, n)
		}
	}
}

// TestDuplexGroups: groups in both directions at once, over random schedules of
// calls, cancellations, credits and shortages of memory: no message finds no
// receive, no group is refused, and every call ends once.
func TestDuplexGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := func() settings.Settings {
			return groupSettings(rapid.IntRange(1, 12).Draw(t, "credits"), rapid.IntRange(1, 12).Draw(t, "backchannel"))
		}
		ends := []*duplexEnd{newDuplexEnd(t, false, gen()), newDuplexEnd(t, true, gen())}
		meet(ends)
		size := func() int { return 40 + 4*rapid.SampledFrom([]int{0, 900, 1100, 2500, 7000}).Draw(t, "bytes") }
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			e := ends[rapid.IntRange(0, 1).Draw(t, "end")]
			switch rapid.IntRange(0, 19).Draw(t, "what") {
			case 0, 1, 2, 3, 4:
				e.call(size(), size())
			case 5:
				if len(e.open) > 0 {
					e.fromQ(e.q.Cancel(e.open[rapid.IntRange(0, len(e.open)-1).Draw(t, "cancel")], nil))
				}
			case 6:
				e.set(gen())
			case 7:
				e.shortBy = rapid.IntRange(0, 8).Draw(t, "short")
			default:
				if all := stepsOf(ends, func() int { return 24 }); len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "next")]()
				}
			}
			ends[0].check()
			ends[1].check()
		}
		drain(ends, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") })
		settledEnds(t, ends)
	})
}

// TestNoDeadlock goes through every order in which two ends can make progress
// that both make calls of several transmissions, with replies of several, on
// just the credits for one of them: all of them come to an end.
func TestNoDeadlock(t *testing.T) {
	const stream, reply = 5000, 5000 // two transmissions each
	for _, credits := range []int{2, 3} {
		start := func() []*duplexEnd {
			s := groupSettings(credits, credits)
			ends := []*duplexEnd{newDuplexEnd(t, false, s), newDuplexEnd(t, true, s)}
			meet(ends)
			for range 2 {
				for _, e := range ends {
					e.call(stream, reply)
				}
			}
			return ends
		}
		long := func() int { return reply }
		seen := make(map[string]bool)
		ended := 0
		for paths := [][]int{nil}; len(paths) > 0; {
			path := paths[len(paths)-1]
			paths = paths[:len(paths)-1]
			ends := start()
			for _, i := range path {
				stepsOf(ends, long)[i]()
			}
			state := stateOf(ends)
			if seen[state] {
				continue
			}
			seen[state] = true
			n := len(stepsOf(ends, long))
			if n == 0 {
				settledEnds(t, ends)
				if ends[0].completed != 3 || ends[1].completed != 3 || ends[0].groups < 1 || ends[1].groups != 2 {
					t.Fatalf("%d and %d calls came to an end, %d and %d in groups, by %v", ends[0].completed, ends[1].completed, ends[0].groups, ends[1].groups, path)
				}
				ended++
			}
			for i := range n {
				paths = append(paths, append(path[:len(path):len(path)], i))
			}
		}
		if len(seen) < 100 || ended == 0 {
			t.Fatalf("%d states, %d of them ends", len(seen), ended)
		}
		t.Logf("%d credits: %d states, %d of them ends", credits, len(seen), ended)
	}
}

// stateOf tells states apart.
func stateOf(ends []*duplexEnd) string {
	var b strings.Builder
	for _, e := range ends {
		fmt.Fprintf(&b, "%d %+v %+v %+v %d;", len(e.recvs), e.q.spend, e.s.grants, e.q.gather.Came, e.s.xmit.gather.Came)
		for _, m := range e.out {
			fmt.Fprintf(&b, "%d/%x ", len(m), m[:32])
		}
		for _, c := range e.serving {
			fmt.Fprintf(&b, "serves %d ", c.XID)
		}
		for _, c := range e.sending {
			fmt.Fprintf(&b, "sends %d ", c.XID)
		}
		for _, o := range e.open {
			fmt.Fprintf(&b, "open %d %d %d ", o.XID, o.state, o.uses)
		}
	}
	return b.String()
}
