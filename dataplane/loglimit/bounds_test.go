package loglimit

import (
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// address returns the i-th of many addresses.
func address(i int) string {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 7).String()
}

// TestManyPeers: 20,000 bad peers a minute, with one address or many, and 30,000
// reconnects make less than 64 KiB of log a minute. The counts include all of them.
func TestManyPeers(t *testing.T) {
	const peers, storm = 20_000, 30_000
	for name, from := range map[string]func(i int) string{
		"one address":    func(i int) string { return fmt.Sprintf("192.0.2.7:%d", 1024+i) },
		"many addresses": address,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, log *slog.Logger, _ *Handler, j *journal) {
				for i := range storm {
					if i < peers {
						log.Warn("softiwarp: connection request dropped", "listener", "192.0.2.1:20049", "peer", from(i),
							"error", "softiwarp: MPA request: not the key of a request frame")
					}
					log.Info("connection up", "conn", i, "listener", "nfs", "peer", from(i), "inline_send", 4096, "inline_receive", 4096, "remote_invalidation", true)
					log.Info("connection down", "conn", i, "listener", "nfs", "peer", from(i), "reason", "the peer has disconnected", "calls", 1, "errors", 0, "up_for", 12*time.Millisecond)
					pass(time.Minute / storm)
				}
				pass(Period)
				const times = len(`time=2026-11-22T15:04:05.678Z `) // left out in this test
				bytes, counted := 0, 0
				more := regexp.MustCompile(` more=(\d+) in=5s`)
				for _, l := range j.Take() {
					bytes += times + len(l) + 1
					if m := more.FindStringSubmatch(l); m != nil {
						n, _ := strconv.Atoi(m[1])
						counted += n
					} else {
						counted++
					}
				}
				t.Logf("%d bytes of log", bytes)
				if bytes > 64<<10 {
					t.Errorf("%d bytes of log", bytes)
				}
				if counted != peers+2*storm {
					t.Errorf("%d lines logged or counted, not %d", counted, peers+2*storm)
				}
			})
		})
	}
}

// known is the number of kinds that h knows.
func known(h *Handler) int {
	h.limiter.mu.Lock()
	defer h.limiter.mu.Unlock()
	return len(h.limiter.flows) + len(h.limiter.exact)
}

// TestBoundedMemory: peers and kinds beyond the bounds are counted together.
func TestBoundedMemory(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, h *Handler, j *journal) {
		repeat(burst+10_000, func(i int) { log.Warn("m", "peer", address(i)) })
		repeat(100, func(int) { log.Warn("m", "peer", address(burst)) })
		h.limiter.mu.Lock()
		peers := len(h.limiter.flows[kind{level: slog.LevelWarn, message: "m"}].peers)
		h.limiter.mu.Unlock()
		if peers != maxPeers {
			t.Errorf("%d peers known", peers)
		}
		j.Take()
		pass(Period)
		j.expect(t, "level=WARN msg=m more=10100 in=5s peers.10.0.0.10=101 peers.10.0.0.11=1 peers.10.0.0.12=1 peers.10.0.0.13=1 peers.10.0.0.14=1 peers.others=9995")

		repeat(10_000, func(i int) { log.Warn(fmt.Sprint("kind ", i), "peer", "192.0.2.7:1") })
		repeat(10_000, func(i int) { log.Error("error", "i", i) })
		if n := known(h); n > 2*maxKinds+1 {
			t.Errorf("%d kinds known", n)
		}
		if n := len(j.Take()); n != maxKinds-1+burst+10_000 { // "m" is still known; kinds beyond maxKinds share the burst of overflow
			t.Errorf("%d lines of 10,000 kinds and 10,000 errors", n)
		}
		pass(Period)
		if got := j.Take(); len(got) != 1 || !strings.HasPrefix(got[0], `level=WARN msg="lines of other kinds" more=`) {
			t.Errorf("counted\n%s", strings.Join(got, "\n"))
		}

		// There is room again when their periods are over.
		pass(Period)
		repeat(2, func(int) { log.Warn("late", "peer", "192.0.2.7:1") })
		if n := known(h); n != 1+maxKinds { // errors are forgotten only to make room for others
			t.Errorf("%d kinds known afterwards", n)
		}
		j.Take()
	})
}

// TestManyGoroutines: no line is lost or counted twice.
func TestManyGoroutines(t *testing.T) {
	bubble(t, func(t *testing.T, log *slog.Logger, h *Handler, j *journal) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				repeat(1000, func(i int) { log.Warn("m", "peer", address(i%3)) })
			})
		}
		wg.Wait()
		h.Flush()
		got := j.Take()
		if len(got) != burst+1 || !strings.Contains(got[burst], fmt.Sprint("more=", 8000-burst)) {
			t.Errorf("logged\n%s", strings.Join(got, "\n"))
		}
	})
}
