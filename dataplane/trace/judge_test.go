package trace

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
)

// both is the private data of a side that accepts remote invalidation.
var both = wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}.Append(nil)

// on sets the connection of events.
func on(c *Conn, all ...*Event) []*Event {
	for _, e := range all {
		e.Conn = c
	}
	return all
}

// scene returns a call with a write chunk and a read chunk. The server is our
// end, or the other end if Began is set.
func scene(c *Conn, invalidate uint32) []*Event {
	in := !c.Began
	chunk := rpcrdma1.Header{
		XID: 1, Credits: 8, Writes: []rpcrdma1.WriteChunk{{{Handle: 0x77, Length: 8, Offset: 1}}},
		Reads: []rpcrdma1.ReadSegment{{Position: 40, Segment: rpcrdma1.Segment{Handle: 0x55, Length: 4, Offset: 2}}},
	}
	reply := invalidating(message(!in, rpcrdma1.Header{XID: 1, Credits: 8, Writes: chunk.Writes}, oncrpc.AppendAcceptedReply(nil, 1)), invalidate)
	all := []*Event{message(in, chunk, callOf(1, 300000, 1, 1))}
	if !c.Began {
		all = append(all,
			&Event{Op: verbs.OpRDMARead, In: true, RKey: 0x55, Addr: 2, Length: 4, Data: make([]byte, 4)},
			&Event{Op: verbs.OpRDMAWrite, RKey: 0x77, Addr: 1, Length: 8, Data: make([]byte, 8)})
	}
	return on(c, append(all, reply)...)
}

// verdicts judges events and returns the broken rules.
func verdicts(j *Judge, all []*Event) (out []string) {
	for i, e := range all {
		for _, v := range j.Observe(e).Violations {
			out = append(out, fmt.Sprintf("%d %s by %s", i, v.Rule, v.By))
		}
	}
	return out
}

// TestJudge checks at either end that correct events cause no violation and
// wrong ones do.
func TestJudge(t *testing.T) {
	for _, began := range []bool{false, true} {
		info := Info{PeerPrivate: both, OwnPrivate: both, Began: began}
		if got := verdicts(NewJudge(wholeRing), scene(&Conn{Info: info}, 0x77)); len(got) > 0 {
			t.Errorf("began %v: %q", began, got)
		}
		bad := scene(&Conn{Info: info}, 0x99)
		if got := verdicts(NewJudge(wholeRing), bad); len(got) == 0 {
			t.Errorf("began %v: nothing is said of an STag that nobody offered", began)
		}
	}
}

// TestJudgeGaps checks that events which a watcher missed cause no violation.
func TestJudgeGaps(t *testing.T) {
	c := &Conn{Info: Info{PeerPrivate: both, OwnPrivate: both}}
	all := scene(c, 0x77)
	if got := verdicts(NewJudge(wholeRing), all[3:]); len(got) == 0 {
		t.Error("nothing is said of a reply to no call")
	}
	midway := *all[3]
	midway.Midway = true
	if got := verdicts(NewJudge(wholeRing), []*Event{&midway}); len(got) > 0 {
		t.Errorf("a reply to a call before the watcher: %q", got)
	}
	j, other := NewJudge(wholeRing), &Conn{Info: Info{PeerPrivate: both, OwnPrivate: both}}
	if got := verdicts(j, on(other, message(true, rpcrdma1.Header{XID: 9, Credits: 8}, callOf(9, 300000, 1, 1)))); len(got) > 0 {
		t.Fatalf("a call: %q", got)
	}
	reply := on(other, message(false, rpcrdma1.Header{XID: 10, Credits: 8}, oncrpc.AppendAcceptedReply(nil, 10)))
	reply[0].Missing = 1
	if got := verdicts(j, reply); len(got) > 0 {
		t.Errorf("a reply to a call that was dropped: %q", got)
	}
}

// TestJudgeMemory checks that the referees and the watcher share one memory
// bound. If there is no memory left for a connection's referee, the connection
// is given up once. A connection that ends makes room for another.
func TestJudgeMemory(t *testing.T) {
	const memory = 1 << 20
	var h Hub
	h.SetMemory(memory)
	var judges []*Judge
	for {
		w, j, err := h.WatchJudged(Filter{})
		if errors.Is(err, ErrNoMemory) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		judges = append(judges, j)
	}
	total := int64(0)
	for i, j := range judges {
		total += int64(j.memory)
		given := 0
		for range 2 * maxJudged {
			last := h.Add(Info{PeerPrivate: both, OwnPrivate: both})
			for xid := range uint32(8) {
				e := message(true, rpcrdma1.Header{XID: xid, Credits: 8}, callOf(xid, 300000, 1, 1))
				e.Conn = last
				if v := j.Observe(e); v.GivenUp == noMemory {
					given++
				} else if v.GivenUp != "" {
					t.Fatal(v.GivenUp)
				}
			}
			if j.used > j.memory {
				t.Fatalf("judge %d: %d bytes of %d", i, j.used, j.memory)
			}
		}
		if given == 0 || given >= 2*maxJudged {
			t.Errorf("judge %d: %d connections were given up", i, given)
		}
		for c := range j.conns {
			c.ended.Store(true)
		}
		if got := verdicts(j, scene(h.Add(Info{PeerPrivate: both, OwnPrivate: both}), 0x99)); len(got) == 0 {
			t.Errorf("judge %d: a connection after those that ended is not judged", i)
		}
	}
	if used := h.Memory(); len(judges) < 2 || used > memory || used < total+total/2 {
		t.Errorf("%d judges have %d of %d bytes that are used, of %d", len(judges), total, used, memory)
	}
}

// TestJudgeMemoryOfTheEnded checks that connections that have ended leave their
// memory to others, however few they are.
func TestJudgeMemoryOfTheEnded(t *testing.T) {
	var h Hub
	j := NewJudge(minRing)
	for i := range maxJudged / 2 {
		c := h.Add(Info{PeerPrivate: both, OwnPrivate: both})
		for _, e := range scene(c, 0x77) {
			if v := j.Observe(e); v.GivenUp != "" {
				t.Fatalf("connection %d, the only one that is open, is given up: %s", i, v.GivenUp)
			}
		}
		c.Close()
		if j.used > j.memory {
			t.Fatalf("%d bytes of %d", j.used, j.memory)
		}
	}
	freed := 0
	for _, c := range j.conns {
		if c.freed {
			freed++
		}
	}
	if freed == 0 {
		t.Error("the memory was enough for all")
	}
}

// TestJudgeLeavesNothingUnsaid checks that of connections that have ended, and whose events still
// wait, each is judged or given up, however little memory there is.
func TestJudgeLeavesNothingUnsaid(t *testing.T) {
	var h Hub
	j := NewJudge(minRing)
	var scenes [][]*Event
	for range maxJudged / 2 {
		c := h.Add(Info{PeerPrivate: both, OwnPrivate: both})
		scenes = append(scenes, scene(c, 0x99))
		c.Close()
	}
	said := make(map[*Conn]bool)
	for i := range scenes[0] {
		for _, events := range scenes {
			if v := j.Observe(events[i]); len(v.Violations) > 0 || v.GivenUp != "" {
				said[events[i].Conn] = true
			}
			if j.used > j.memory {
				t.Fatalf("%d bytes of %d", j.used, j.memory)
			}
		}
	}
	if len(said) < len(scenes) {
		t.Errorf("nothing is said of %d of %d connections, which all use an STag that nobody offered", len(scenes)-len(said), len(scenes))
	}
}

// TestJudgeMany checks that each of many open connections is judged, or given up once.
func TestJudgeMany(t *testing.T) {
	var h Hub
	j := NewJudge(wholeRing / 2)
	judged, given := 0, 0
	for range 2 * maxJudged {
		for _, e := range scene(h.Add(Info{PeerPrivate: both, OwnPrivate: both}), 0x99) {
			v := j.Observe(e)
			judged += len(v.Violations)
			if v.GivenUp != "" {
				given++
			}
		}
	}
	if judged+given != 2*maxJudged || judged < maxJudged || given == 0 {
		t.Errorf("of %d connections that use an STag that nobody offered, %d are judged and %d given up", 2*maxJudged, judged, given)
	}
}

// TestJudgeForgets checks that ended connections make room for others.
func TestJudgeForgets(t *testing.T) {
	var h Hub
	j := NewJudge(wholeRing)
	for range 2 * maxJudged {
		c := h.Add(Info{PeerPrivate: both, OwnPrivate: both})
		verdicts(j, scene(c, 0x77))
		c.ended.Store(true)
		if len(j.conns) > maxJudged {
			t.Fatalf("%d connections are judged", len(j.conns))
		}
	}
	if got := verdicts(j, scene(h.Add(Info{PeerPrivate: both, OwnPrivate: both}), 0x99)); len(got) == 0 {
		t.Error("a connection after many is not judged")
	}
}

// TestJudgeLate checks that a connection that was forgotten before its last events causes no violation,
// and one that began beside maxJudged others neither.
func TestJudgeLate(t *testing.T) {
	var h Hub
	j := NewJudge(2 * wholeRing)
	conn := func() *Conn { return h.Add(Info{PeerPrivate: both, OwnPrivate: both}) }
	ends := conn()
	early := scene(ends, 0x77)
	if got := verdicts(j, early[:3]); len(got) > 0 {
		t.Fatalf("the first connection: %q", got)
	}
	var others []*Conn
	for len(j.conns) < maxJudged {
		c := conn()
		others = append(others, c)
		verdicts(j, scene(c, 0x77))
	}
	late := conn()
	all := scene(late, 0x77)
	if got := verdicts(j, all[:3]); len(got) > 0 {
		t.Fatalf("one more: %q", got)
	}
	others[0].Close()
	if got := verdicts(j, all[3:]); len(got) > 0 {
		t.Errorf("a reply on one more connection: %q", got)
	}
	ends.Close() // its reply still waits in the ring
	for j.conns[ends] != nil {
		if got := verdicts(j, scene(conn(), 0x77)); len(got) > 0 {
			t.Fatalf("a new connection: %q", got)
		}
	}
	others[1].Close()
	if got := verdicts(j, early[3:]); len(got) > 0 {
		t.Errorf("a reply on a connection that was forgotten: %q", got)
	}
	others[2].Close()
	if got := verdicts(j, scene(conn(), 0x99)); len(got) == 0 {
		t.Error("a new connection is not judged from its beginning")
	}
}

// TestWatcherMidway checks Event.Midway: whether the watcher saw a connection
// from its beginning.
func TestWatcherMidway(t *testing.T) {
	var h Hub
	before := h.Add(Info{ID: "1"})
	w, err := h.Watch(Filter{}, All)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	after := h.Add(Info{ID: "2"})
	tapped := h.AddTapped(Info{ID: "3"}, after.Tap())
	for _, tc := range []struct {
		c    *Conn
		want bool
	}{{before, true}, {after, false}, {tapped, true}} {
		w.observe(&Event{Conn: tc.c}, nil)
		if e, err := w.TryNext(); err != nil || e.Midway != tc.want {
			t.Errorf("connection %s: midway %v, %v", tc.c.ID, e.Midway, err)
		}
	}
}
