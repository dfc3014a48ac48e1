package transport

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
)

func TestMain(m *testing.M) {
	if server := os.Getenv(idleEnv); server != "" {
		if err := beIdle(server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, offheaptest.Gate())
}

type taskFunc func()

func (f taskFunc) run() { f() }

// TestWorkers: every task runs at once, whatever the others do, and no
// goroutine is left after close.
func TestWorkers(t *testing.T) {
	var w workers
	w.start()
	for range 3 {
		const n = 2 * maxIdleWorkers
		var all sync.WaitGroup
		var in atomic.Int32
		together := make(chan struct{})
		all.Add(n)
		for range n {
			w.run(taskFunc(func() {
				defer all.Done()
				if in.Add(1) == n {
					close(together)
				}
				<-together
			}))
		}
		all.Wait()
	}
	w.close()
	if n := w.wait.Load(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}
