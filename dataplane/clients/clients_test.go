package clients

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Unix(1000, 0)

// address returns the address of the i-th client.
func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }

// fake is a connection that did as much as the test says.
type fake struct {
	Counters
	conn *Conn
}

func (f *fake) now() Counters { return f.Counters }

// join adds a connection of the i-th client.
func join(t *Table, at time.Time, i int, calls uint64) *fake {
	f := &fake{Counters: Counters{Calls: calls}}
	f.conn = t.Join(at, address(i), f.now)
	return f
}

// show writes a list in short.
func show(list []Client, others Client) (s string) {
	for _, c := range append(list, others) {
		s += fmt.Sprintf("%v %d:%d ", c.Address, c.Connections, c.Calls)
	}
	return s
}

func TestList(t *testing.T) {
	table := New(10)
	a := table.Join(start, netip.MustParseAddr("::ffff:192.0.0.1"), func() Counters { return Counters{1, 2, 3, 4, 5} })
	join(table, start.Add(time.Second), 1, 5)
	join(table, start, 2, 9)
	join(table, start, 3, 1)
	a.Leave()
	list, others, n := table.List(2)
	if got, want := show(list, others), "192.0.0.2 1:9 192.0.0.1 1:6 invalid IP 1:1 "; got != want || n != 1 {
		t.Errorf("got %s and %d, want %s", got, n, want)
	}
	if one := list[1]; one.Counters != (Counters{6, 2, 3, 4, 5}) || !one.Since.Equal(start) {
		t.Errorf("%+v", one)
	}
	if list, others, n = table.List(0); len(list) != 3 || n != 0 || others != (Client{}) {
		t.Errorf("%v, %v, %d", list, others, n)
	}
}

// A table that is full forgets the client that left first. While nobody has left, new clients
// are the rest.
func TestRoom(t *testing.T) {
	table := New(2)
	a, b := join(table, start, 1, 10), join(table, start, 2, 20)
	c := join(table, start, 3, 30)
	list, others, _ := table.List(0)
	if got, want := show(list, others), "192.0.0.2 1:20 192.0.0.1 1:10 invalid IP 1:30 "; got != want {
		t.Errorf("full: %s, want %s", got, want)
	}
	b.conn.Leave()
	a.conn.Leave()
	join(table, start, 4, 40)
	c.conn.Leave()
	list, others, _ = table.List(0)
	if got, want := show(list, others), "192.0.0.4 1:40 192.0.0.1 0:10 invalid IP 0:50 "; got != want {
		t.Errorf("one forgotten: %s, want %s", got, want)
	}
	if len(table.clients) != 2 {
		t.Errorf("%d clients", len(table.clients))
	}
}

// A client that was back meanwhile is forgotten after those that left before its last connection
// ended, and not at all while it is connected.
func TestBackAgain(t *testing.T) {
	table := New(3)
	for i := range 3 {
		join(table, start, i, uint64(i)).conn.Leave()
	}
	again := join(table, start, 0, 0)
	join(table, start, 3, 3)
	again.conn.Leave()
	join(table, start, 4, 4)
	join(table, start, 5, 5)
	list, others, _ := table.List(0)
	if got, want := show(list, others), "192.0.0.5 1:5 192.0.0.4 1:4 192.0.0.3 1:3 invalid IP 0:3 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// BenchmarkFull has clients come and go whose addresses the table does not know, while it is full.
func BenchmarkFull(b *testing.B) {
	table := New(Room)
	for i := 0; b.Loop(); i++ {
		table.Join(start, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), func() Counters { return Counters{} }).Leave()
	}
}

// The busiest clients have series of their own. A busier one takes a series, but not at once.
func TestExportChooses(t *testing.T) {
	table := New(100)
	var all []*fake
	for i := range Top + 2 {
		all = append(all, join(table, start, i, uint64(100-i)))
	}
	list, others := table.Export(start)
	if len(list) != Top || list[0].Address != address(0) || others.Calls != 1969 || others.Connections != 2 {
		t.Fatalf("%d clients, others %+v", len(list), others)
	}
	all[Top+1].Calls += 1000
	if list, others = table.Export(start.Add(time.Minute)); len(list) != Top || others.Calls != 2969 {
		t.Errorf("after a minute: %d clients, others %+v", len(list), others)
	}
	list, others = table.Export(start.Add(chooseEvery))
	if len(list) != Top || list[Top-1].Address != address(Top+1) || list[Top-1].Calls != 1079 || others.Calls != 2969 {
		t.Errorf("after the choice: %v, others %+v", show(list, others), others)
	}
}

// No series ever falls, whatever clients do: Prometheus would take that for a restart.
func TestExportGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, now := New(Top+5), start
		var up []*fake
		before := map[netip.Addr]uint64{}
		var total, exported uint64
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				up = append(up, join(table, now, rapid.IntRange(0, 60).Draw(t, "client"), 0))
			case 1:
				if len(up) > 0 {
					i := rapid.IntRange(0, len(up)-1).Draw(t, "conn")
					up[i].conn.Leave()
					up = append(up[:i], up[i+1:]...)
				}
			case 2:
				for _, f := range up {
					n := uint64(rapid.IntRange(0, 50).Draw(t, "calls"))
					f.Calls += n
					total += n
				}
			case 3:
				list, others := table.Export(now)
				if len(list) > Top {
					t.Fatalf("%d series", len(list))
				}
				after := map[netip.Addr]uint64{}
				for _, c := range append(list, others) {
					if was, had := before[c.Address]; had && c.Calls < was {
						t.Fatalf("%v fell from %d to %d", c.Address, was, c.Calls)
					} else if had || !c.Address.IsValid() {
						exported += c.Calls - was
					}
					after[c.Address] = c.Calls
				}
				before = after
			}
		}
		if exported > total {
			t.Fatalf("%d calls were made, %d exported", total, exported)
		}
		list, others, _ := table.List(0)
		var sum uint64
		for _, c := range append(list, others) {
			sum += c.Calls
		}
		if sum != total {
			t.Fatalf("%d calls were made, %d listed", total, sum)
		}
	})
}

// Connections that count themselves are in the same sums as those that the table reads.
func TestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(5)
		var up []*fake
		var did Counters
		counted := map[*fake]bool{} // those that count themselves, and whether they have
		table.Recount = func() {
			for f, done := range counted {
				if !done {
					f.conn.Count(f.Counters)
					counted[f] = true
				}
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
			case step == 0:
				up = append(up, join(table, start, rapid.IntRange(0, 8).Draw(t, "client"), 0))
			case step == 1:
				f := &fake{}
				f.conn = table.Join(start, address(rapid.IntRange(0, 8).Draw(t, "client")), nil)
				counted[f] = true
				up = append(up, f)
			case step == 2 && len(up) > 0:
				i := rapid.IntRange(0, len(up)-1).Draw(t, "conn")
				f := up[i]
				if _, counts := counted[f]; counts {
					f.conn.Count(f.Counters)
					delete(counted, f)
				}
				f.conn.Leave()
				up = append(up[:i], up[i+1:]...)
			case step == 3 && len(up) > 0:
				f := up[rapid.IntRange(0, len(up)-1).Draw(t, "conn")]
				more := Counters{1, 2, 3, 4, 5}
				f.add(more)
				did.add(more)
				if counted[f] {
					counted[f] = false
				}
			default:
				list, others := table.Export(start)
				n := others.Connections
				for _, c := range list {
					n += c.Connections
				}
				if n != len(up) {
					t.Fatalf("%d connections, want %d", n, len(up))
				}
			}
		}
		list, others, _ := table.List(0)
		var sum Counters
		for _, c := range append(list, others) {
			sum.add(c.Counters)
		}
		if sum != did {
			t.Fatalf("listed %+v, want %+v", sum, did)
		}
	})
}

// BenchmarkExport is a scrape while each of as many clients as the table remembers has an idle
// connection.
func BenchmarkExport(b *testing.B) {
	table := New(Room)
	for i := range Room {
		table.Join(start, address(i), nil)
	}
	for b.Loop() {
		table.Export(start)
	}
}

func TestNilCountsNothing(t *testing.T) {
	var table *Table
	table.Join(start, address(1), nil).Leave()
}
