// Package interrupt ends programs by signals: in order by the first, at once by the next.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Context returns a context that SIGINT and SIGTERM end. end ends it, too. The next signal ends the process, also
// while it waits for a disk or a server. timeout(1) sends each signal twice, which is one.
func Context() (ctx context.Context, end context.CancelFunc) {
	return until(signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM))
}

// until returns a context that ends with signals, or by end. stop stops catching signals, but not at once: the program
// may be about to end in order.
func until(signals context.Context, stop context.CancelFunc) (ctx context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(signals)
	context.AfterFunc(ctx, func() { time.AfterFunc(doubled, stop) })
	return ctx, end
}

// doubled is how long after a signal the same may come again.
const doubled = 250 * time.Millisecond
