package connlimit

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Unix(1e9, 0)

// conn is a connection that remembers why it lost its place.
type conn struct {
	busy atomic.Bool
	why  atomic.Pointer[Eviction]
}

func (c *conn) Busy() bool       { return c.busy.Load() }
func (c *conn) Evict(e Eviction) { c.why.Store(&e) }

// admit admits a connection, and fails the test if there is no place.
func admit(t *testing.T, table *Table, now time.Time, key string, class Class) (*conn, *Place) {
	t.Helper()
	c := new(conn)
	p, err := table.Admit(now, Name(key), class, c)
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

func refused(t *testing.T, table *Table, now time.Time, key string, class Class, want Reason) {
	t.Helper()
	_, err := table.Admit(now, Name(key), class, new(conn))
	if e, ok := errors.AsType[*RefusedError](err); !ok || e.Reason != want {
		t.Fatalf("%s: %v, want a refusal for %s", key, err, want)
	}
}

func TestIdlestGoes(t *testing.T) {
	table := New(start, Config{Name: "listener nfs", Limits: Limits{Total: 3}})
	a, pa := admit(t, table, start, "a", Ordinary)
	b, pb := admit(t, table, start, "b", Ordinary)
	c, pc := admit(t, table, start, "c", Ordinary)
	pa.Touch(start.Add(2 * time.Second))
	pb.Touch(start.Add(1 * time.Second))
	pc.Touch(start)
	c.busy.Store(true)
	refused(t, table, start.Add(Grace), "d", Ordinary, Total)
	admit(t, table, start.Add(Grace+time.Second), "d", Ordinary)
	if a.why.Load() != nil || c.why.Load() != nil {
		t.Error("one in use lost its place")
	}
	want := "idle, and its place of listener nfs was needed for d"
	if e := b.why.Load(); e == nil || e.Text() != want {
		t.Errorf("evicted: %v, want %q", e, want)
	}
	got, want2 := table.Stats(), Stats{Held: 3, Leaving: 1, Keys: 3, Refused: Counts{Total: 1}, Evicted: Counts{Total: 1}}
	if got != want2 {
		t.Errorf("%+v, want %+v", got, want2)
	}
	pb.Leave()
	pb.Leave()
	if n := table.Stats().Leaving; n != 0 {
		t.Errorf("%d leaving", n)
	}
}

// TestStorm has a peer with many addresses ask for places as fast as it can,
// beside connections that are in use.
func TestStorm(t *testing.T) {
	const places, inUse = 64, 16
	table := New(start, Config{Limits: Limits{Total: places}})
	var used []*conn
	var held []*Place
	for range inUse {
		c, p := admit(t, table, start, "innocent", Ordinary)
		used, held = append(used, c), append(held, p)
	}
	now := start
	storm := 0
	for range 600 { // a minute
		now = now.Add(100 * time.Millisecond)
		for _, p := range held {
			p.Touch(now)
		}
		for range 20 {
			c := new(conn)
			if p, err := table.Admit(now, Name("storm"), Ordinary, c); err == nil {
				storm++
				defer p.Leave()
			}
		}
	}
	for i, c := range used {
		if c.why.Load() != nil {
			t.Errorf("connection %d was in use: %s", i, c.why.Load().Text())
		}
	}
	if s := table.Stats(); s.Held > places || s.Leaving > 16+places/16 || storm == 0 {
		t.Errorf("%d admitted; %+v", storm, s)
	}
}

func TestHalfOpenGoFirst(t *testing.T) {
	table := New(start, Config{Limits: Limits{Total: 2}})
	idle, p := admit(t, table, start, "a", Ordinary)
	p.Touch(start)
	half, _ := admit(t, table, start.Add(time.Minute), "b", Ordinary)
	now := start.Add(time.Minute + HalfOpenGrace)
	admit(t, table, now, "c", Ordinary)
	if half.why.Load() == nil || idle.why.Load() != nil {
		t.Error("the half-open one stayed")
	}
}

// TestWeights: heavy places take as many light ones as they weigh, or none.
func TestWeights(t *testing.T) {
	root := New(start, Config{Limits: Limits{Total: 10, Weight: 10}})
	light := New(start, Config{Name: "light", Parent: root})
	heavy := New(start, Config{Name: "heavy", Parent: root, Weight: 3})
	var all []*conn
	var places []*Place
	for i := range 9 {
		c, p := admit(t, light, start, strconv.Itoa(i), Ordinary)
		p.Touch(start)
		all, places = append(all, c), append(places, p)
	}
	at := start.Add(Grace)
	for _, p := range places[1:] {
		p.Touch(at)
	}
	_, tenth := admit(t, root, at, "new", Ordinary)
	tenth.Touch(at)
	_, err := heavy.Admit(at, Name("heavy"), Ordinary, new(conn))
	if e, ok := errors.AsType[*RefusedError](err); !ok || !e.Weight || e.Limit != 10 || e.Leaving || evicted(all) != 0 {
		t.Errorf("with one idle connection: %v; %d evicted", err, evicted(all))
	}
	admit(t, heavy, at.Add(Grace), "heavy", Ordinary)
	if n := evicted(all); n != 3 || root.Stats().Held != 8 {
		t.Errorf("%d evicted for one of weight 3, %d held", n, root.Stats().Held)
	}
}

// TestWeightOfKey: if Total places of a weight exceed Weight, one key has a quarter of it.
func TestWeightOfKey(t *testing.T) {
	root := New(start, Config{Limits: Limits{Total: 16, Weight: 16}})
	heavy := New(start, Config{Name: "heavy", Parent: root, Weight: 2})
	admit(t, heavy, start, "a", Ordinary)
	admit(t, heavy, start, "a", Ordinary)
	refused(t, heavy, start, "a", Ordinary, PerKey)
	for range 12 {
		admit(t, root, start, "b", Ordinary) // of weight 1, all of which fit
	}
	refused(t, heavy, start, "c", Ordinary, Total)
}

func TestKeyTakesItsOwn(t *testing.T) {
	table := New(start, Config{Limits: Limits{Total: 10, PerKey: 2}})
	other, p := admit(t, table, start, "b", Ordinary)
	p.Touch(start)
	old, p := admit(t, table, start.Add(time.Second), "a", Ordinary)
	p.Touch(start.Add(time.Second))
	_, p = admit(t, table, start.Add(time.Second), "a", Ordinary)
	p.Touch(start.Add(2 * time.Second))
	refused(t, table, start.Add(Grace), "a", Ordinary, PerKey)
	admit(t, table, start.Add(Grace+time.Second), "a", Ordinary)
	if old.why.Load() == nil || other.why.Load() != nil {
		t.Error("a took another's place")
	}
}

// crowd is a table whose n places are taken by keys with so many each, all of which did
// something at the start.
func crowd(t *testing.T, now time.Time, parts map[string]int) (*Table, map[string][]*conn) {
	t.Helper()
	table, all, n := New(now, Config{}), map[string][]*conn{}, 0
	for key, places := range parts {
		for range places {
			c, p := admit(t, table, now, key, Ordinary)
			p.Touch(now)
			all[key] = append(all[key], c)
			n++
		}
	}
	table.SetLimits(Limits{Total: n})
	return table, all
}

func evicted(all []*conn) (n int) {
	for _, c := range all {
		if c.why.Load() != nil {
			n++
		}
	}
	return n
}

// TestFewFindPlaces has all places taken by connections that were in use a
// moment ago. Newcomers of a key with few take those of keys with more, the
// largest first, until they have as many.
func TestFewFindPlaces(t *testing.T) {
	table, all := crowd(t, start, map[string]int{"large": 5, "middle": 3, "small": 1})
	now := start.Add(FairGrace)
	refused(t, table, now.Add(-1), "new", Ordinary, Total)
	admit(t, table, now, "new", Ordinary)
	admit(t, table, now, "new", Ordinary)
	if l, m := evicted(all["large"]), evicted(all["middle"]); l != 2 || m != 0 {
		t.Errorf("%d of the largest and %d others have gone", l, m)
	}
	refused(t, table, now, "new", Ordinary, Total) // three each: it would have more
	admit(t, table, now, "newer", Ordinary)
	if l, m, s := evicted(all["large"]), evicted(all["middle"]), evicted(all["small"]); l+m != 3 || s != 0 {
		t.Errorf("%d, %d and %d have gone", l, m, s)
	}
}

// TestUseProtects: connections with work in flight keep their places, and hide
// nobody else's.
func TestUseProtects(t *testing.T) {
	table, all := crowd(t, start, map[string]int{"large": 5, "middle": 3, "small": 1})
	for _, c := range all["large"] {
		c.busy.Store(true)
	}
	now := start.Add(FairGrace)
	admit(t, table, now, "new", Ordinary)
	if l, m := evicted(all["large"]), evicted(all["middle"]); l != 0 || m != 1 {
		t.Errorf("%d of the largest, in use, and %d others have gone", l, m)
	}
	refused(t, table, now, "new", Ordinary, Total)
	all["large"][2].busy.Store(false)
	admit(t, table, now.Add(FairGrace), "new", Ordinary)
	if all["large"][2].why.Load() == nil {
		t.Error("one that is idle again stayed")
	}
}

// TestManyMachines has an attacker on many machines hold and ask for places all the time,
// each of them used every few seconds. A key with few connections, which are idle as long, keeps
// them and gets more.
func TestManyMachines(t *testing.T) {
	const machines, each = 50, 10
	parts := map[string]int{"innocent": 2}
	for i := range machines {
		parts["machine "+strconv.Itoa(i)] = each
	}
	table, all := crowd(t, start, parts)
	now := start
	for i := range 100 {
		now = now.Add(Grace / 200)
		for m := range machines {
			if _, err := table.Admit(now, Name("machine "+strconv.Itoa(m)), Ordinary, new(conn)); err == nil && now.Sub(start) < FairGrace {
				t.Fatal("a place was free")
			}
		}
		if i == 50 {
			admit(t, table, now, "innocent", Ordinary)
			_, err := table.Admit(now, Name("another"), Ordinary, new(conn))
			if err != nil {
				t.Error(err)
			}
		}
	}
	if n := evicted(all["innocent"]); n != 0 {
		t.Errorf("%d of the innocent ones lost their places", n)
	}
}

// TestFairPartsOfClasses: places of the reserved class are nobody's part.
func TestFairPartsOfClasses(t *testing.T) {
	table := New(start, Config{Limits: Limits{Total: 6, Reserved: 2}})
	admins := make([]*conn, 3)
	for i := range admins {
		var p *Place
		admins[i], p = admit(t, table, start, "root", Reserved)
		p.Touch(start)
	}
	viewers := make([]*conn, 3)
	for i := range viewers {
		var p *Place
		viewers[i], p = admit(t, table, start, "viewer", Ordinary)
		p.Touch(start)
	}
	now := start.Add(FairGrace)
	admit(t, table, now, "other", Ordinary)
	if evicted(admins) != 0 || evicted(viewers) != 1 {
		t.Errorf("%d admins and %d viewers lost their places", evicted(admins), evicted(viewers))
	}
	refused(t, table, now, "root", Reserved, Total) // it has more than any other
}

// TestOwnPlacesAreTakenSoon has one key come again and again, and none of its
// connections end.
func TestOwnPlacesAreTakenSoon(t *testing.T) {
	const grace = 10 * time.Millisecond
	table := New(start, Config{Limits: Limits{Total: 8, PerKey: 3, KeyGrace: grace}})
	other, p := admit(t, table, start, "b", Ordinary)
	p.Touch(start)
	silent, _ := admit(t, table, start, "a", Ordinary)
	idle, p := admit(t, table, start, "a", Ordinary)
	p.Touch(start.Add(time.Millisecond))
	busy, p := admit(t, table, start, "a", Ordinary)
	p.Touch(start)
	busy.busy.Store(true)
	refused(t, table, start.Add(grace-1), "a", Ordinary, PerKey)
	newcomer, _ := admit(t, table, start.Add(2*grace), "a", Ordinary)
	if silent.why.Load() != nil || idle.why.Load() == nil {
		t.Error("the idle one did not go before the silent one, which may be about to call")
	}
	last, _ := admit(t, table, start.Add(2*grace), "a", Ordinary)
	if silent.why.Load() == nil || newcomer.why.Load() != nil {
		t.Error("without an idle one, the silent one did not go")
	}
	at := start.Add(3*grace + HalfOpenGrace)
	_, p = admit(t, table, at, "a", Ordinary)
	p.Touch(at)
	if newcomer.why.Load() == nil {
		t.Error("the oldest silent one did not go")
	}
	admit(t, table, at.Add(grace), "a", Ordinary)
	if last.why.Load() == nil || busy.why.Load() != nil || other.why.Load() != nil {
		t.Error("one that is silent for long did not go first, or one that is in use went, or another's")
	}
}

// TestWithin lowers limits, and leaves those alone that are low enough.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		l    Limits
		most int
		want Limits
	}{
		{Limits{Total: 64, PerKey: 16, Reserved: 8}, 64, Limits{Total: 64, PerKey: 16, Reserved: 8}},
		{Limits{Total: 64, PerKey: 16, Reserved: 8}, 16, Limits{Total: 16, PerKey: 4, Reserved: 4}},
		{Limits{Total: 64, PerKey: 2, Reserved: 1}, 16, Limits{Total: 16, PerKey: 2, Reserved: 1}},
		{Limits{}, 100, Limits{Total: 100, PerKey: 25}},
		{Limits{Total: 64, PerKey: 16, Reserved: 8}, 1, Limits{Total: 1, PerKey: 1}},
	} {
		if got := c.l.Within(c.most); got != c.want {
			t.Errorf("%+v within %d: %+v, want %+v", c.l, c.most, got, c.want)
		}
	}
}

// TestReserved fills every place that ordinary users may have, all in use.
func TestReserved(t *testing.T) {
	table := New(start, Config{Name: "the control plane", Limits: Limits{Total: 8, Reserved: 2}})
	for range 6 {
		c, p := admit(t, table, start, "viewer", Ordinary)
		c.busy.Store(true)
		p.Touch(start)
	}
	now := start.Add(time.Hour)
	refused(t, table, now, "viewer", Ordinary, Kept)
	_, err := table.Admit(now, Name("viewer"), Ordinary, new(conn))
	if want := "all 6 connections of the control plane that are not kept for admins are in use"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for range 2 {
		_, p := admit(t, table, now, "root", Reserved)
		p.Touch(now)
	}
	refused(t, table, now, "root", Reserved, Total)
}

// TestParent fills the table of all listeners. A newcomer of one listener takes the
// place of an idle connection of another.
func TestParent(t *testing.T) {
	all := New(start, Config{Limits: Limits{Total: 2}})
	left := New(start, Config{Name: "left", Parent: all, Limits: Limits{Total: 2}})
	right := New(start, Config{Name: "right", Parent: all})
	idle, p := admit(t, left, start, "a", Ordinary)
	p.Touch(start)
	_, p = admit(t, left, start, "a", Ordinary)
	p.Touch(start.Add(time.Second))
	admit(t, right, start.Add(Grace), "b", Ordinary)
	if idle.why.Load() == nil {
		t.Error("nobody was evicted")
	}
	if l, r, n := left.Stats().Held, right.Stats().Held, all.Stats().Held; l != 1 || r != 1 || n != 2 {
		t.Errorf("%d, %d, in all %d", l, r, n)
	}
	if l, r := left.Stats().Evicted[Total], right.Stats().Evicted[Total]; l != 1 || r != 0 {
		t.Errorf("evicted: %d and %d, want the one of the left", l, r)
	}
}

// TestLoweredLimits: each newcomer above a lowered limit takes the places of two,
// until the limit is reached.
func TestLoweredLimits(t *testing.T) {
	table := New(start, Config{Limits: Limits{Total: 8}})
	for range 8 {
		_, p := admit(t, table, start, "a", Ordinary)
		p.Touch(start)
	}
	table.SetLimits(Limits{Total: 4})
	now := start.Add(Grace)
	for want := 7; want >= 4; want-- {
		admit(t, table, now, "b", Ordinary)
		if n := table.Stats().Held; n != want {
			t.Fatalf("%d held, want %d", n, want)
		}
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		table := New(began, Config{Limits: Limits{HalfOpen: 10 * time.Second}})
		go table.Run(t.Context())
		half, _ := admit(t, table, time.Now(), "a", Ordinary)
		used, p := admit(t, table, time.Now(), "b", Ordinary)
		p.Touch(time.Now())
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if e := half.why.Load(); e == nil || e.Reason != HalfOpen {
			t.Errorf("half-open: %v", e)
		}
		if used.why.Load() != nil {
			t.Error("idle, and there is no limit of that")
		}
		table.SetLimits(Limits{Idle: 20 * time.Second})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if e := used.why.Load(); e == nil || e.Reason != Idle {
			t.Errorf("idle: %v", e)
		}
	})
}

func TestAddressKeys(t *testing.T) {
	key := func(s string) Key { return Address(netip.MustParseAddr(s)) }
	for _, same := range [][2]string{
		{"192.0.2.1", "::ffff:192.0.2.1"}, {"2001:db8::1", "2001:db8::2:3:4:5"}, {"fe80::1%eth0", "fe80::2%eth1"},
	} {
		if key(same[0]) != key(same[1]) {
			t.Errorf("%s and %s have different keys", same[0], same[1])
		}
	}
	for _, differ := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8:0:1::1"}} {
		if key(differ[0]) == key(differ[1]) {
			t.Errorf("%s and %s have the same key", differ[0], differ[1])
		}
	}
	if s := key("2001:db8::1").String(); s != "2001:db8::/64" {
		t.Error(s)
	}
	if s := key("192.0.2.1").String(); !strings.HasPrefix(s, "192.0.2.1") || Name("x").String() != "x" {
		t.Error(s)
	}
}

func TestTouchAllocatesNothing(t *testing.T) {
	table := New(start, Config{})
	_, p := admit(t, table, start, "a", Ordinary)
	if n := testing.AllocsPerRun(100, func() { p.Touch(start) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAdmitFull admits newcomers at a full table with n connections in
// use, each of which is touched now and then.
func BenchmarkAdmitFull(b *testing.B) {
	const n = 1 << 14
	table := New(start, Config{Limits: Limits{Total: n}})
	for range n {
		p, err := table.Admit(start, Name("a"), Ordinary, new(conn))
		if err != nil {
			b.Fatal(err)
		}
		p.Touch(start)
	}
	now := start
	for b.Loop() {
		now = now.Add(time.Millisecond)
		if p, err := table.Admit(now, Name("b"), Ordinary, new(conn)); err == nil {
			p.Touch(now)
			p.Leave()
		}
	}
}

// leaver leaves its place as soon as it has lost it.
type leaver struct{ place *Place }

func (l *leaver) Busy() bool     { return false }
func (l *leaver) Evict(Eviction) { l.place.Leave() }

// BenchmarkAdmitFair admits newcomers with one connection each at a full table
// of many keys, none of whose connections was idle for Grace.
func BenchmarkAdmitFair(b *testing.B) {
	const keys, each = 1 << 10, 1 << 4
	table := New(start, Config{Limits: Limits{Total: keys * each}})
	admit := func(now time.Time, key int) {
		l := new(leaver)
		p, err := table.Admit(now, Name(strconv.Itoa(key)), Ordinary, l)
		if err == nil {
			l.place = p
			p.Touch(now)
		}
	}
	for i := range keys * each {
		admit(start, i%keys)
	}
	now := start.Add(FairGrace)
	for i := 0; b.Loop(); i++ {
		now = now.Add(100 * time.Microsecond)
		admit(now, keys+i)
	}
	b.ReportMetric(float64(table.Stats().Refused[Total])/float64(b.N), "refused/op")
}
