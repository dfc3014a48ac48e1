package peers

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var (
	attacker = netip.MustParseAddr("192.0.2.66")
	innocent = netip.MustParseAddr("192.0.2.1")
)

// TestFloodTakesFromItself has one peer fill the list again and again beside
// another's value.
func TestFloodTakesFromItself(t *testing.T) {
	l := NewList[int](4)
	mine, _ := l.Add(innocent, -1)
	for i := range 100 {
		_, lost := l.Add(attacker, i)
		if i < 3 && lost != nil || i >= 3 && (lost == nil || lost.Value != i-3) {
			t.Fatalf("value %d of the flood: %+v had to go", i, lost)
		}
	}
	second, lost := l.Add(innocent, -2)
	if lost == nil || lost.Value != 97 {
		t.Errorf("%+v had to go for a peer that has less", lost)
	}
	if !l.Remove(mine) || !l.Remove(second) || l.Remove(mine) || l.Remove(lost) {
		t.Error("an item was removed twice, or never")
	}
}

// TestOldestOfEqualsGoes: when each peer has as much, age decides.
func TestOldestOfEqualsGoes(t *testing.T) {
	l := NewList[int](3)
	a := attacker
	for i := range 10 {
		_, lost := l.Add(a, i)
		if i >= 3 && lost.Value != i-3 {
			t.Errorf("value %d: %d had to go", i, lost.Value)
		}
		a = a.Next()
	}
}

// TestTurns has values leave in turns of their peers.
func TestTurns(t *testing.T) {
	l := NewList[int](10)
	for i := range 5 {
		l.Add(attacker, i)
	}
	l.Add(innocent, 10)
	l.Add(innocent, 11)
	var got []int
	for v, ok := l.Next(); ok; v, ok = l.Next() {
		got = append(got, v)
	}
	if want := []int{0, 10, 1, 11, 2, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestV6Site: all addresses of a /64 are one peer.
func TestV6Site(t *testing.T) {
	l := NewList[int](2)
	l.Add(netip.MustParseAddr("2001:db8::1"), 1)
	l.Add(innocent, 2)
	if _, lost := l.Add(netip.MustParseAddr("2001:db8::2"), 3); lost.Value != 1 {
		t.Errorf("%d had to go", lost.Value)
	}
	if Of(netip.MustParseAddr("::ffff:192.0.2.1")) != innocent || Of(netip.MustParseAddr("fe80::1%eth0")) != Of(netip.MustParseAddr("fe80::2%eth1")) {
		t.Error("one peer under two names")
	}
}

// TestModel compares a list with a slice in the order of arrival.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const room = 5
		l := NewList[int](room)
		var all []*Item[int]
		of := make(map[*Item[int]]netip.Addr)
		forget := func(i *Item[int]) { all = slices.DeleteFunc(all, func(o *Item[int]) bool { return o == i }) }
		count := func(a netip.Addr) (n int) {
			for _, i := range all {
				if of[i] == a {
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if l.Len() != len(all) || len(all) > room {
					t.Fatalf("%d in the list, %d in the model", l.Len(), len(all))
				}
			},
			"add": func(t *rapid.T) {
				a := netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "address") % 4})
				added, lost := l.Add(a, 0)
				of[added] = a
				all = append(all, added)
				if (lost != nil) != (len(all) > room) {
					t.Fatalf("%d of %d: lost %v", len(all), room, lost)
				}
				if lost == nil {
					return
				}
				for _, i := range all {
					if most, n := count(of[lost]), count(of[i]); n > most || n == most && slices.Index(all, i) < slices.Index(all, lost) {
						t.Fatalf("a peer with %d lost one, another has %d", most, n)
					}
				}
				forget(lost)
			},
			"remove": func(t *rapid.T) {
				if len(all) > 0 {
					i := rapid.SampledFrom(all).Draw(t, "item")
					if !l.Remove(i) {
						t.Fatal("not there")
					}
					forget(i)
				}
			},
			"next": func(t *rapid.T) {
				if _, ok := l.Next(); ok != (len(all) > 0) {
					t.Fatalf("next: %v with %d", ok, len(all))
				}
				at := slices.IndexFunc(all, func(i *Item[int]) bool { return i.at == nil })
				if at < 0 {
					return
				}
				for _, i := range all[:at] {
					if of[i] == of[all[at]] {
						t.Fatal("not the oldest of its peer")
					}
				}
				forget(all[at])
			},
		})
	})
}
