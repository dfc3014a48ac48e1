package conn

import (
	"slices"
	"testing"
)

// TestDuplexGroupInterrupted: a message of either direction within a transmission
// group of either direction ends that group, and is taken for itself (rtrext
// §4.2).
func TestDuplexGroupInterrupted(t *testing.T) {
	const long = 5000 // two transmissions
	for _, server := range []bool{false, true} {
		for _, reply := range []bool{false, true} {
			s := groupSettings(8, 8)
			ends := map[bool]*duplexEnd{false: newDuplexEnd(t, false, s), true: newDuplexEnd(t, true, s)}
			meet([]*duplexEnd{ends[false], ends[true]})
			from, to := ends[server], ends[!server]

			// A message of the other direction, and the group before it.
			short := func() {
				if reply {
					from.call(40, 24)
					return
				}
				to.call(40, 24)
				from.receive(take(&to.out, 0))
				from.fromS(from.s.Reply(take(&from.serving, 0), 24, nil, nil))
			}
			group := func() {
				if !reply {
					from.call(long, 24)
					return
				}
				to.call(40, long)
				from.receive(take(&to.out, 0))
				from.fromS(from.s.Reply(take(&from.serving, 0), long, nil, nil))
			}
			group()
			if len(from.out) != 2 {
				t.Fatalf("server %v, reply %v: %d transmissions", server, reply, len(from.out))
			}
			short()
			from.out = slices.Insert(from.out[:2:2], 1, from.out[2])
			before := to.completed
			to.receive(take(&from.out, 0))
			to.receive(take(&from.out, 0))
			refused, taken := to.s.Counters.GroupsRefused, len(to.serving)
			if reply {
				refused = to.q.Counters.Complaints
			} else {
				taken = to.completed - before
			}
			if refused != 1 || taken != 1 || to.dead {
				t.Errorf("server %v, reply %v: %d groups refused, %d messages taken, dead %v", server, reply, refused, taken, to.dead)
			}
			drain([]*duplexEnd{ends[false], ends[true]}, func(int) int { return 0 })
			for _, e := range ends {
				e.check()
				if e.dead || len(e.open) > 0 || e.s.grants.Held() != 0 || e.q.gather.Open || e.s.xmit.gather.Open {
					t.Errorf("server %v, reply %v: dead %v, %d calls open, %d held", server, reply, e.dead, len(e.open), e.s.grants.Held())
				}
			}
		}
	}
}
