package descriptors

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOpen: each file counts, here and as another process sees it.
func TestOpen(t *testing.T) {
	before := Open()
	for range 50 {
		f, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if n := Open() - before; n != 50 {
		t.Errorf("50 files more are %d", n)
	}
	sleep := exec.Command("sleep", "600")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Wait()
	defer sleep.Process.Kill()
	other := fmt.Sprintf("/proc/%d", sleep.Process.Pid)
	if own, others := named(self), named(other); own != Open() || others != OpenIn(other) || others == 0 {
		t.Errorf("by name %d of %d here, %d of %d in another process", own, Open(), others, OpenIn(other))
	}
	if n := OpenIn(t.TempDir()); n != 0 {
		t.Errorf("a process that has ended has %d", n)
	}
}

// TestNothingIsGivenTwice: the parts add up to the limit, and none is empty.
func TestNothingIsGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Want{
			Served:      rapid.IntRange(0, 300).Draw(t, "served"),
			Connections: rapid.IntRange(1, 65536).Draw(t, "connections"),
			TCP:         rapid.IntRange(1, 65536).Draw(t, "tcp"),
			Control:     rapid.IntRange(1, 65536).Draw(t, "control"),
			Metrics:     rapid.IntRange(1, 65536).Draw(t, "metrics"),

			PerConnection: rapid.IntRange(0, 3).Draw(t, "per connection"),
		}
		b, err := Divide(rapid.IntRange(64, 1<<20).Draw(t, "limit"), w)
		if least := ownFiles + perServed*w.Served + leastRest; b.Limit < least {
			if few, ok := errors.AsType[*TooFewError](err); !ok || few.Least != least {
				t.Fatalf("%v, want %d at least", err, least)
			}
			return
		}
		if sum := b.Own + b.Control + b.Metrics + b.Files + b.TCP + b.RDMA; err != nil || sum != b.Limit {
			t.Fatalf("%+v makes %d, %v", b, sum, err)
		}
		if min(b.Own, b.Control, b.Metrics, b.Files, b.TCP, b.RDMA, b.Handshakes(), b.Connections()) < 1 {
			t.Fatalf("%+v leaves somebody without", b)
		}
		if b.Connections()*max(w.PerConnection, 1) > b.Connected() || b.Connected()+b.Handshakes() > b.RDMA || b.ControlClients()*perClient > max(b.Control, perClient) {
			t.Fatalf("%+v: more connections than descriptors", b)
		}
	})
}

// TestLeast: with the fewest descriptors there is something for everybody, and the
// error otherwise says what to raise.
func TestLeast(t *testing.T) {
	w := Want{Served: 2, Connections: 4096, TCP: 1024, Control: 256, Metrics: 64}
	_, err := Divide(151, w)
	if want := "only 151 files may be open, and rdmad needs 152 at least for 2 listeners, services and connectors: " +
		"raise ulimit -n, or LimitNOFILE of the service, to that or more"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	b, err := Divide(152, w)
	if err != nil || b.Connections() < 8 || b.TCP < 8 || b.Files < 16 || b.ControlClients() < 4 || b.Scrapers() < 4 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestTenThousand: 10,000 connections of one descriptor each fit in 20,000 files, and others do
// not.
func TestTenThousand(t *testing.T) {
	for each, want := range map[int]int{1: 10353, 2: 5176, 3: 3451} {
		b, err := Divide(20000, Want{Served: 2, Connections: 10000, PerConnection: each, TCP: 1024, Control: 256, Metrics: 64})
		if err != nil || b.Connections() != want || b.Connected() != 10353 || b.Handshakes() != 1536 || (len(b.Unreachable) > 0) != (want < 10000) {
			t.Errorf("%d descriptors each: %d, %+v, %v", each, b.Connections(), b, err)
		}
		text := "limits.connections: 10000 can't be reached, 5176 of 2 files each can: only 20000 files may be open; " +
			"raise ulimit -n, or LimitNOFILE of the service"
		if each == 2 && b.Unreachable[0] != text {
			t.Errorf("got  %s\nwant %s", b.Unreachable[0], text)
		}
	}
}

// TestScale: docs/scale.md has the descriptors for so many connections.
func TestScale(t *testing.T) {
	for _, c := range []struct{ connections, each, limit int }{
		{4096, 1, 10000}, {4096, 2, 17000}, {4096, 3, 23100}, {10000, 1, 19500}, {10000, 2, 35500}, {10000, 3, 51500},
	} {
		b, err := Divide(c.limit, Want{Served: 2, Connections: c.connections, PerConnection: c.each, TCP: 1024, Control: 256, Metrics: 64})
		if err != nil || len(b.Unreachable) > 0 || b.Connections() > c.connections*11/10 {
			t.Errorf("%+v: %d, %q, %v", c, b.Connections(), b.Unreachable, err)
		}
	}
}

func TestProblems(t *testing.T) {
	w := Want{Served: 2, Connections: 4096, TCP: 1024, Control: 256, Metrics: 64}
	b, err := Divide(65536, w)
	if got := b.Unreachable; err != nil || len(got) != 0 {
		t.Errorf("of 65536 files: %q, %v", got, err)
	}
	b, err = Divide(1024, w)
	got := b.Unreachable
	if err != nil || len(got) != 4 || !strings.HasPrefix(got[0], "limits.connections: 4096 can't be reached, ") || !strings.Contains(got[0], "only 1024 files may be open") ||
		!strings.HasPrefix(got[1], "limits.tcp_connections: 1024 ") {
		t.Errorf("of 1024 files: %q, %v", got, err)
	}
	if n, err := Limit(); err != nil || n < Open() || Open() < 3 {
		t.Errorf("%d of %d open, %v", Open(), n, err)
	}
}
