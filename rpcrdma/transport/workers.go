package transport

import (
	"sync"
	"sync/atomic"
)

// maxIdleWorkers is the number of goroutines of a host that wait for the next
// call when they are done.
const maxIdleWorkers = 64

// task is work for a worker.
type task interface{ run() }

// workers run services. There is a goroutine for each call in progress, as
// many as connections have granted credits; a few that are done wait for the
// next call rather than end.
type workers struct {
	hand   chan task // to a waiting worker
	quit   chan struct{}
	wait   atomic.Int32
	active sync.WaitGroup
}

func (w *workers) start() {
	w.hand = make(chan task)
	w.quit = make(chan struct{})
}

// run has t run in a worker. It does not wait.
func (w *workers) run(t task) {
	select {
	case w.hand <- t:
	default:
		w.active.Go(func() { w.work(t) })
	}
}

func (w *workers) work(t task) {
	for {
		t.run()
		if w.wait.Add(1) > maxIdleWorkers {
			w.wait.Add(-1)
			return
		}
		select {
		case t = <-w.hand:
			w.wait.Add(-1)
		case <-w.quit:
			w.wait.Add(-1)
			return
		}
	}
}

// close waits until all workers are done. Nothing is run any more.
func (w *workers) close() {
	close(w.quit)
	w.active.Wait()
}
