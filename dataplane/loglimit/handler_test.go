package loglimit

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// journal keeps the lines that were written.
type journal struct{ logtest.Log }

// expect compares the lines since the last take with those wanted.
func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	got := j.Take()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// bubble runs f in a synctest bubble, with a logger whose lines have no time.
func bubble(t *testing.T, f func(t *testing.T, log *slog.Logger, h *Handler, j *journal)) {
	synctest.Test(t, func(t *testing.T) {
		j := new(journal)
		h := New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}}))
		f(t, slog.New(h), h, j)
	})
}

func repeat(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

// pass waits for d.
func pass(d time.Duration) {
	time.Sleep(d) // the bubble's clock
	synctest.Wait()
}

// TestFlood: the first lines of a kind are logged. The others are counted per peer
// in each period, until few lines come.
func TestFlood(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		t.Run(level.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
				warn := func(peer string) { log.Log(t.Context(), level, "m", "peer", peer) }
				repeat(1000, func(i int) { warn(fmt.Sprintf("192.0.2.7:%d", 1+i)) })
				warn("[2001:db8::1]:5")
				warn("[::ffff:192.0.2.7]:5")
				var first []string
				for i := range burst {
					first = append(first, fmt.Sprintf("level=%s msg=m peer=192.0.2.7:%d", level, 1+i))
				}
				j.expect(t, first...)

				pass(Period)
				j.expect(t, fmt.Sprintf("level=%s msg=m more=992 in=5s peers.192.0.2.7=991 peers.2001:db8::1=1", level))

				// While it goes on, a line of each of a few peers passes.
				repeat(100, func(int) { warn("192.0.2.7:1") })
				repeat(100, func(int) { warn("192.0.2.8:1") })
				repeat(100, func(int) { warn("192.0.2.9:1") })
				j.expect(t, fmt.Sprintf("level=%s msg=m peer=192.0.2.7:1", level), fmt.Sprintf("level=%s msg=m peer=192.0.2.8:1", level))
				pass(Period)
				j.expect(t, fmt.Sprintf("level=%s msg=m more=298 in=5s peers.192.0.2.9=100 peers.192.0.2.7=99 peers.192.0.2.8=99", level))

				// A period of few lines is its end.
				repeat(5, func(int) { warn("192.0.2.7:1") })
				pass(Period)
				j.expect(t, fmt.Sprintf("level=%s msg=m peer=192.0.2.7:1", level), fmt.Sprintf("level=%s msg=m more=4 in=5s peers.192.0.2.7=4", level))
				repeat(burst, func(int) { warn("192.0.2.7:1") })
				if n := len(j.Take()); n != burst {
					t.Errorf("%d lines after the flood", n)
				}
				pass(10 * Period)
				repeat(burst+1, func(int) { warn("192.0.2.7:1") })
				if n := len(j.Take()); n != burst {
					t.Errorf("%d lines long after it", n)
				}
				pass(Period)
			})
		})
	}
}

// TestNoFlood: few lines are logged as they come, without counts.
func TestNoFlood(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
		for range 100 {
			repeat(burst, func(i int) { log.Warn("m", "peer", "192.0.2.7:1", "i", i) })
			if n := len(j.Take()); n != burst {
				t.Fatalf("%d lines", n)
			}
			pass(Period)
		}
		j.expect(t, "")
	})
}

// TestKinds: a flood of one kind does not hold back lines with another message or
// level.
func TestKinds(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
		repeat(1000, func(int) { log.Warn("m", "peer", "192.0.2.7:1") })
		j.Take()
		log.Warn("other", "peer", "192.0.2.7:1")
		log.Info("m", "peer", "192.0.2.7:1")
		j.expect(t, "level=WARN msg=other peer=192.0.2.7:1", "level=INFO msg=m peer=192.0.2.7:1")
		pass(Period)
		j.expect(t, "level=WARN msg=m more=990 in=5s peers.192.0.2.7=990")
	})
}

// TestOwnLines: all errors and all actions of the operator are logged. Only lines
// with the same attributes are counted.
func TestOwnLines(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
		named := log.With("service", "a").WithGroup("g")
		repeat(1000, func(i int) {
			log.Error("not brought back", "listener", i)
			log.Info("settings changed", "revision", i)
			named.Info("settings changed", "revision", i)
		})
		if n := len(j.Take()); n != 3000 {
			t.Errorf("%d lines of 3000", n)
		}
		pass(Period)
		repeat(100, func(int) { named.Error("accept failed", "listener", "nfs") })
		if n := len(j.Take()); n != burst {
			t.Errorf("%d lines that say the same", n)
		}
		pass(Period)
		j.expect(t, `level=ERROR msg="accept failed" service=a g.listener=nfs g.more=90 g.in=5s`)
	})
}

// TestLinesWithoutPeer: warnings are counted without a peer, too.
func TestLinesWithoutPeer(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
		repeat(100, func(i int) { log.Warn("fell behind", "by", i) })
		j.Take()
		pass(Period)
		j.expect(t, `level=WARN msg="fell behind" more=90 in=5s`)
	})
}

// TestDerivedHandlers count together; a peer may be named by With.
func TestDerivedHandlers(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
		for i := range 10 {
			repeat(10, func(int) { log.With("conn", i, "peer", "192.0.2.7:1").Info("m") })
		}
		j.Take()
		pass(Period)
		j.expect(t, "level=INFO msg=m more=90 in=5s peers.192.0.2.7=90")
	})
}

// TestPeers: whatever the form of a peer's address, its host has one name.
func TestPeers(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		value any
		want  string
	}{
		{"192.0.2.7:1", "192.0.2.7"},
		{"[2001:db8::1]:1", "2001:db8::1"},
		{"[fe80::1%eth0]:1", "fe80::1"},
		{"[::ffff:192.0.2.7]:1", "192.0.2.7"},
		{netip.MustParseAddrPort("192.0.2.7:1"), "192.0.2.7"},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1}, "192.0.2.7"},
		{&net.UnixAddr{Name: "/run/x", Net: "unix"}, "/run/x"},
		{"storage.example.net:20049", "storage.example.net"},
		{"uid 0 (root)", "uid 0 (root)"},
		{"", ""},
		{long, long[:maxName]},
	} {
		if got := host(slog.AnyValue(c.value)); got != c.want {
			t.Errorf("%v: %q, not %q", c.value, got, c.want)
		}
	}
}

// TestFlush: the counts are logged at once, in order, and lines go on.
func TestFlush(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, h *Handler, j *journal) {
		repeat(20, func(int) { log.Warn("b", "peer", "192.0.2.7:1") })
		repeat(20, func(int) { log.Warn("a", "peer", "192.0.2.7:1") })
		pass(time.Second)
		repeat(20, func(int) { log.Error("c") })
		j.Take()
		pass(time.Second)
		h.Flush()
		j.expect(t, "level=WARN msg=a more=10 in=2s peers.192.0.2.7=10", "level=WARN msg=b more=10 in=2s peers.192.0.2.7=10",
			"level=ERROR msg=c more=10 in=1s")
		h.Flush()
		j.expect(t, "")
		log.Warn("a", "peer", "192.0.2.7:1")
		j.expect(t, "level=WARN msg=a peer=192.0.2.7:1")
		pass(2 * Period)
		j.expect(t, "")
	})
}
