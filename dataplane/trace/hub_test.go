package trace

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
)

// add adds a connection of listener l from an address.
func add(h *Hub, id, listener, peer string) *Conn {
	return h.Add(Info{
		ID: id, Listener: listener, Peer: netip.MustParseAddrPort(peer), Local: netip.MustParseAddrPort("192.0.2.1:20049"),
	})
}

// say makes a connection receive a text.
func say(c *Conn, text string) {
	c.Tap().Observe(&rpcrdma.Operation{Op: verbs.OpSend, In: true, Length: len(text), Data: [][]byte{[]byte(text)}})
}

func watch(t *testing.T, h *Hub, f Filter, s Snap) *Watcher {
	t.Helper()
	w, err := h.Watch(f, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// texts returns the waiting texts.
func texts(t *testing.T, w *Watcher) (all []string) {
	t.Helper()
	for {
		e, err := w.TryNext()
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if e == nil {
			return all
		}
		all = append(all, e.Conn.ID+" "+string(e.Data))
	}
}

func TestFilters(t *testing.T) {
	var h Hub
	a := add(&h, "1", "nfs", "10.0.0.1:700")
	b := add(&h, "2", "nfs", "[::ffff:10.0.1.1]:700")
	for _, tc := range []struct {
		name   string
		filter Filter
		want   []string
	}{
		{"all", Filter{}, []string{"1 a", "2 b", "3 c"}},
		{"connections", Filter{Connections: []string{"2", "1"}}, []string{"1 a", "2 b"}},
		{"listener", Filter{Listener: "other"}, []string{"3 c"}},
		{"peer", Filter{Peer: netip.MustParsePrefix("10.0.1.0/24")}, []string{"2 b"}},
		{"peer with a zone", Filter{Peer: netip.MustParsePrefix("fe80::/10")}, []string{"3 c"}},
		{"both", Filter{Listener: "other", Peer: netip.MustParsePrefix("10.0.0.0/24")}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := watch(t, &h, tc.filter, All)
			c := add(&h, "3", "other", "[fe80::1%eth0]:700") // added after the watcher
			defer c.Close()
			say(a, "a")
			say(b, "b")
			say(c, "c")
			if got := texts(t, w); !slices.Equal(got, tc.want) {
				t.Errorf("saw %q, want %q", got, tc.want)
			}
		})
	}
	if got := h.Missing(&Filter{Connections: []string{"1", "9"}}); got != "9" {
		t.Errorf("missing is %q, want 9", got)
	}
}

func TestSnap(t *testing.T) {
	var h Hub
	c := add(&h, "1", "nfs", "10.0.0.1:700")
	w := watch(t, &h, Filter{}, Snap{Send: 3, RDMA: 2})
	c.Tap().Observe(&rpcrdma.Operation{Op: verbs.OpSendInvalidate, RKey: 7, Length: 6, Data: [][]byte{[]byte("ab"), []byte("cdef")}})
	c.Tap().Observe(&rpcrdma.Operation{Op: verbs.OpRDMAWrite, RKey: 8, Addr: 9, Length: 6, Data: [][]byte{[]byte("ghijkl")}})
	for _, want := range []Event{
		{Conn: c, Op: verbs.OpSendInvalidate, RKey: 7, Length: 6, Data: []byte("abc")},
		{Conn: c, Op: verbs.OpRDMAWrite, RKey: 8, Addr: 9, Length: 6, Data: []byte("gh")},
	} {
		e, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Time.IsZero() || e.Whole() {
			t.Errorf("time %v, whole %v", e.Time, e.Whole())
		}
		if e.Conn != want.Conn || e.Op != want.Op || e.RKey != want.RKey || e.Addr != want.Addr || e.Length != want.Length || string(e.Data) != string(want.Data) {
			t.Errorf("saw %+v, want %+v", e, want)
		}
	}
}

// TestEnds checks that a watcher of named connections ends after the last of
// them, and first delivers all waiting events. Other watchers continue.
func TestEnds(t *testing.T) {
	var h Hub
	a, b := add(&h, "1", "nfs", "10.0.0.1:700"), add(&h, "2", "nfs", "10.0.0.1:701")
	named := watch(t, &h, Filter{Connections: []string{"1", "2"}}, All)
	all := watch(t, &h, Filter{}, All)
	say(a, "x")
	a.Close()
	a.Close()
	say(b, "y")
	b.Close()
	say(b, "unseen")
	if got := texts(t, named); !slices.Equal(got, []string{"1 x", "2 y"}) {
		t.Errorf("saw %q", got)
	}
	if _, err := named.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
	if got := texts(t, all); len(got) != 2 {
		t.Errorf("saw %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a watcher of all ends with %v", err)
	}
	gone := watch(t, &h, Filter{Connections: []string{"1"}}, All)
	if _, err := gone.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("a watcher of what is gone ends with %v", err)
	}
}

func TestTooManyWatchers(t *testing.T) {
	var h Hub
	var last *Watcher
	for range MaxWatchers {
		last = watch(t, &h, Filter{}, Snap{})
	}
	if _, err := h.Watch(Filter{}, Snap{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	last.Close()
	last.Close()
	if n := h.Watchers(); n != MaxWatchers-1 {
		t.Errorf("%d watchers", n)
	}
	watch(t, &h, Filter{}, Snap{})
}

// TestWatchersShareMemory checks that all watchers together stay within their
// memory. There is memory for MaxWatchers, and each gets even an event that is
// larger than its part.
func TestWatchersShareMemory(t *testing.T) {
	const memory = 64 << 20
	var h Hub
	h.SetMemory(memory)
	c := add(&h, "1", "nfs", "10.0.0.1:700")
	big := rpcrdma.Operation{Op: verbs.OpRDMAWrite, Length: 1 << 20, Data: [][]byte{make([]byte, 1<<20)}}
	var all []*Watcher
	for range MaxWatchers {
		all = append(all, watch(t, &h, Filter{}, All))
	}
	if first := all[0].ring.memory(); first != wholeRing {
		t.Errorf("the first has %d bytes, want %d", first, wholeRing)
	}
	if n := h.Memory(); n > memory || n < memory/2 {
		t.Errorf("%d bytes of %d", n, memory)
	}
	c.Tap().Observe(&big)
	for i, w := range all {
		if e, err := w.TryNext(); err != nil || e == nil || e.Dropped != 0 || len(e.Data) < minRing/8 {
			t.Errorf("watcher %d: %+v, %v", i, e, err)
		}
		w.Close()
	}
	if n := h.Memory(); n != 0 {
		t.Errorf("%d bytes after the end", n)
	}
	h.SetMemory(1 << 20)
	for {
		if _, err := h.Watch(Filter{}, All); errors.Is(err, ErrNoMemory) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := h.Memory(); n > 1<<20 || h.Watchers() < 4 {
		t.Errorf("%d watchers have %d bytes of 1 MiB", h.Watchers(), n)
	}
	h.SetMemory(1 << 30)
	watch(t, &h, Filter{}, All)
}

// TestFullRing checks that events without room are counted, and that no stored
// event is lost.
func TestFullRing(t *testing.T) {
	var h Hub
	c := add(&h, "1", "nfs", "10.0.0.1:700")
	w := watch(t, &h, Filter{}, All)
	big := rpcrdma.Operation{Op: verbs.OpRDMAWrite, Length: 1 << 20, Data: [][]byte{make([]byte, 1<<20)}}
	const n = 20
	for range n {
		c.Tap().Observe(&big)
	}
	const room = RingBytes >> 20
	for i := range room {
		e, err := w.TryNext()
		if err != nil || e == nil || len(e.Data) != 1<<20 || e.Dropped != n-room || e.Missing != 0 {
			t.Fatalf("event %d: %+v, %v", i, e, err)
		}
	}
	if e, err := w.TryNext(); e != nil || err != nil {
		t.Fatalf("one event too many: %+v, %v", e, err)
	}
	for range ringEvents + 5 {
		say(c, "")
	}
	if got := len(texts(t, w)); got != ringEvents {
		t.Errorf("%d events, want %d", got, ringEvents)
	}
	say(c, "last")
	if e, _ := w.TryNext(); e == nil || e.Dropped != n-room+5 || e.Missing != n-room+5 {
		t.Errorf("told %+v", e)
	}
}

// TestObserveDoesNotAllocate checks Observe with and without a watcher.
func TestObserveDoesNotAllocate(t *testing.T) {
	var h Hub
	c := add(&h, "1", "nfs", "10.0.0.1:700")
	o := rpcrdma.Operation{Op: verbs.OpSend, Length: 4096, Data: [][]byte{make([]byte, 4096)}}
	if n := testing.AllocsPerRun(100, func() { c.Tap().Observe(&o) }); n != 0 {
		t.Errorf("%v allocations without a watcher", n)
	}
	w := watch(t, &h, Filter{}, All)
	if n := testing.AllocsPerRun(1000, func() {
		c.Tap().Observe(&o)
		if e, err := w.TryNext(); e == nil || err != nil {
			t.Fatal(e, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations with a watcher", n)
	}
}

// TestComingAndGoing adds and removes connections and watchers during traffic.
// The race detector and the order of events show errors.
func TestComingAndGoing(t *testing.T) {
	var h Hub
	ctx, cancel := context.WithCancel(t.Context())
	var talking, looking sync.WaitGroup
	for i := range 4 {
		talking.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				c := add(&h, string(rune('a'+i)), "nfs", "10.0.0.1:700")
				for _, text := range []string{"1", "2", "3"} {
					say(c, text)
				}
				c.Close()
			}
		})
	}
	for range 4 {
		looking.Go(func() {
			for range 15 {
				w, err := h.Watch(Filter{}, All)
				if err != nil {
					t.Error(err)
					return
				}
				last := map[*Conn]string{}
				for range 30 {
					e, err := w.Next(ctx)
					if err != nil {
						t.Error(err)
						break
					}
					if last[e.Conn] >= string(e.Data) {
						t.Errorf("%q after %q", e.Data, last[e.Conn])
					}
					last[e.Conn] = string(e.Data)
				}
				w.Close()
			}
		})
	}
	looking.Wait()
	cancel()
	talking.Wait()
	if len(h.conns) != 0 || len(h.watchers) != 0 {
		t.Errorf("left: %d connections, %d watchers", len(h.conns), len(h.watchers))
	}
}

// BenchmarkObserve measures an event without and with a watcher.
func BenchmarkObserve(b *testing.B) {
	o := rpcrdma.Operation{Op: verbs.OpSend, Length: 1024, Data: [][]byte{make([]byte, 1024)}}
	b.Run("nobody", func(b *testing.B) {
		var h Hub
		c := add(&h, "1", "nfs", "10.0.0.1:700")
		for b.Loop() {
			c.Tap().Observe(&o)
		}
	})
	b.Run("watcher", func(b *testing.B) {
		var h Hub
		c := add(&h, "1", "nfs", "10.0.0.1:700")
		w, err := h.Watch(Filter{}, All)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		for b.Loop() {
			c.Tap().Observe(&o)
			if _, err := w.TryNext(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
