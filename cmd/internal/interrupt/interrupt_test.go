package interrupt

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDoubledSignal: timeout(1) sends a signal twice. The second one kills no program that is ending in order, also
// if the first one came when its work was done.
func TestDoubledSignal(t *testing.T) {
	for _, signalled := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			signals, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var stopped atomic.Bool
			ctx, end := until(signals, func() { stopped.Store(true) })
			if signalled {
				interrupt()
				<-ctx.Done()
			}
			end()
			<-ctx.Done()
			synctest.Wait()
			if stopped.Load() {
				t.Error("the same signal ends the program")
			}
			time.Sleep(doubled)
			synctest.Wait()
			if !stopped.Load() {
				t.Error("the next signal does not end the program")
			}
		})
	}
}
