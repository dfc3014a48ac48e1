// Package interrupt ends programs by signals: in order by the first, at once by the next.
package interrupt

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Context returns a context that SIGINT, SIGTERM and end end. The next signal ends the process, also while it waits
// for a disk or a server. The second signal that timeout(1) sends right after the first does not count.
func Context() (ctx context.Context, end context.CancelFunc) {
	return until(signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM))
}

// until returns a context that ends with signals, or by end. It calls stop, which gives signals their default effect
// again, only after doubled: a doubled signal must not kill a program that is about to end in order.
func until(signals context.Context, stop context.CancelFunc) (ctx context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(signals)
	context.AfterFunc(ctx, func() { time.AfterFunc(doubled, stop) })
	return ctx, end
}

// doubled is the time after a signal in which another one counts as its double.
const doubled = 250 * time.Millisecond
