//go:build rdmacore && cgo

package rdmacore

import "context"

// waiter ends the waits of a completion queue with their context. The registration with the
// last context stays, so that waiting again with the same context costs nothing.
type waiter struct {
	done   <-chan struct{}
	cancel func() bool
}

// watch makes the end of ctx interrupt waits on d.
func (w *waiter) watch(ctx context.Context, d *descriptor) {
	done := ctx.Done()
	if w.done == done {
		return
	}
	w.stop()
	if done != nil {
		w.done, w.cancel = done, context.AfterFunc(ctx, d.interrupt)
	}
}

func (w *waiter) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.done, w.cancel = nil, nil
}
