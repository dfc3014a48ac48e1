package dataplane

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma"
)

func peerAt(i int) receiver {
	return receiver{netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 4096}
}

func TestReceiversHoldWhatThePeerMayHave(t *testing.T) {
	start := time.Unix(0, 0)
	const soon, late = time.Minute, forgetReceiver
	type step struct {
		want  uint32        // of a connection that begins; 0: the last one ends
		after time.Duration // since the step before
		tells uint32
	}
	for _, c := range []struct {
		name  string
		takes uint32
		steps []step
	}{
		{"raised", 4096, []step{{want: 1024, tells: 1024}, {}, {want: 4096, after: soon, tells: 1024}}},
		{"lowered", 4096, []step{{want: 4096, tells: 4096}, {}, {want: 2048, tells: 2048}, {}, {want: 4096, tells: 2048}}},
		{"raised, long away", 4096, []step{{want: 1024, tells: 1024}, {after: late}, {want: 4096, after: late, tells: 4096}}},
		{"raised, not away long enough", 4096, []step{{want: 1024, tells: 1024}, {after: late}, {want: 4096, after: late - 1, tells: 1024}}},
		{"raised, with another up all the time", 4096, []step{{want: 1024, tells: 1024}, {want: 1024, tells: 1024}, {}, {want: 4096, after: late, tells: 1024}}},
		{"as large as it takes", 4096, []step{{want: 8192, tells: 8192}, {}, {want: 16384, tells: 16384}}},
		{"that says nothing", 1024, []step{{want: 1024, tells: 1024}, {}, {want: 4096, tells: 4096}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r receivers
			who, now := receiver{netip.MustParseAddr("192.0.2.1"), c.takes}, start
			for i, s := range c.steps {
				now = now.Add(s.after)
				if s.want == 0 {
					r.leave(who, now)
				} else if got := r.tell(who, s.want, now); got != s.tells {
					t.Errorf("step %d: told of %d bytes, want %d", i, got, s.tells)
				}
			}
		})
	}
}

func TestReceiversApart(t *testing.T) {
	var r receivers
	now := time.Unix(0, 0)
	r.tell(peerAt(1), 1024, now)
	other := peerAt(1)
	other.takes = 8192
	for _, who := range []receiver{peerAt(2), other} {
		if got := r.tell(who, 4096, now); got != 4096 {
			t.Errorf("%v is told of %d bytes, want 4096", who, got)
		}
	}
}

func TestReceiverThatRefuses(t *testing.T) {
	var r receivers
	who, now := peerAt(1), time.Unix(0, 0)
	if got := r.tell(who, 4096, now); got != 4096 || r.refused(who) {
		t.Fatalf("told of %d bytes, refused %v", got, r.refused(who))
	}
	if !r.refuse(who) || r.refuse(who) || !r.refused(who) {
		t.Error("the first refusal alone is news")
	}
	r.leave(who, now)
	if got := r.tell(who, 4096, now); got != rpcrdma.InlineMin {
		t.Errorf("told of %d bytes after it refused", got)
	}
	if r.refuse(peerAt(2)) {
		t.Error("a peer without a connection refused")
	}
}

func TestReceiversAreBounded(t *testing.T) {
	var r receivers
	now := time.Unix(0, 0)
	r.tell(peerAt(0), 1024, now) // stays
	for i := 1; i <= maxReceivers+10; i++ {
		now = now.Add(time.Millisecond)
		r.tell(peerAt(i), 1024, now)
		r.leave(peerAt(i), now)
	}
	if len(r.known) != maxReceivers {
		t.Errorf("%d peers are remembered, want %d", len(r.known), maxReceivers)
	}
	for i, want := range map[int]uint32{0: 1024, 1: 4096, maxReceivers + 10: 1024} {
		if got := r.tell(peerAt(i), 4096, now); got != want {
			t.Errorf("peer %d is told of %d bytes, want %d", i, got, want)
		}
	}
}

// keeper is a client like Linux 6.12: it makes receives as large as the announced Sends, and
// keeps them for its next connections.
type keeper struct {
	who      receiver
	up       bool
	smallest uint32 // of its receives
	left     time.Time
}

// TestReceiversAgainstKeepers: clients of each kind come and go while the setting changes. No
// client gets an announcement larger than its receives, unless it was away for long. No client
// gets one smaller than every earlier one at its address.
func TestReceiversAgainstKeepers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r receivers
		now := time.Unix(0, 0)
		clients := make([]keeper, 6)
		least := map[receiver]uint32{} // that somebody was told of, ever
		for i := range clients {
			clients[i].who = peerAt(i / 2) // two at each address
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, int(forgetReceiver)*2/3).Draw(t, "pause")))
			c := &clients[rapid.IntRange(0, len(clients)-1).Draw(t, "client")]
			if c.up {
				r.leave(c.who, now)
				c.up, c.left = false, now
				continue
			}
			want := rapid.SampledFrom([]uint32{1024, 2048, 4096, 8192}).Draw(t, "want")
			told := r.tell(c.who, want, now)
			if c.smallest == 0 || now.Sub(c.left) >= forgetReceiver {
				c.smallest = c.who.takes // mounted anew
			}
			use := min(told, c.who.takes)
			if use > c.smallest {
				t.Fatalf("%v is told of %d bytes and has receives of %d", c.who, told, c.smallest)
			}
			if l, ok := least[c.who]; told > want || told < want && (!ok || told < l) {
				t.Fatalf("%v is told of %d bytes, the setting is %d, others were told of %d", c.who, told, want, l)
			}
			c.up, c.smallest = true, use
			if l, ok := least[c.who]; !ok || told < l {
				least[c.who] = told
			}
		}
		up := map[receiver]int{}
		for _, c := range clients {
			if c.up {
				up[c.who]++
			}
		}
		for who, s := range r.known {
			if s.up != up[who] {
				t.Fatal(fmt.Sprintf("%v has %d connections, not %d", who, up[who], s.up))
			}
		}
	})
}
