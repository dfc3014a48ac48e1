package softiwarp

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Of the requests that a listener drops, droppedBurst are logged at once, then
// one per droppedEvery: who connects and says nothing can't fill the log.
const (
	droppedBurst = 5
	droppedEvery = 10 * time.Second
)

// droppedLog says which of a listener's dropped requests are logged.
type droppedLog struct {
	mu      sync.Mutex
	lines   *rate.Limiter
	skipped uint64 // since the last line
}

func newDroppedLog() *droppedLog {
	return &droppedLog{lines: rate.NewLimiter(rate.Every(droppedEvery), droppedBurst)}
}

// next says whether a request dropped now is logged, and how many were not
// since the last that was.
func (d *droppedLog) next(now time.Time) (skipped uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.lines.AllowN(now, 1) {
		d.skipped++
		return 0, false
	}
	skipped, d.skipped = d.skipped, 0
	return skipped, true
}

// drop closes a connection whose request can't be served.
func (l *listener) drop(conn *net.TCPConn, err error) {
	if skipped, ok := l.dropped.next(time.Now()); ok {
		args := []any{"listener", l.Addr(), "peer", conn.RemoteAddr(), "error", err}
		if skipped > 0 {
			args = append(args, "not_logged", skipped)
		}
		l.p.config.Logger.Warn("softiwarp: connection request dropped", args...)
	}
	_ = conn.Close()
}
