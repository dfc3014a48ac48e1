package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
)

const (
	// maxIdleWorkers is how many goroutines of a host wait for the next call when they are
	// done.
	maxIdleWorkers = 64
	// turnTime is the shortest time for which a call keeps its turn. The longest is twice
	// that. A call that takes longer is presumed to wait for something, so others may run
	// meanwhile.
	turnTime = time.Millisecond
	// There are turnsEach turns for each processor, and at least leastTurns.
	leastTurns = 8
	turnsEach  = 4
)

// task is work for a worker.
type task interface{ run() }

// turnTask is a task that runs when its connection's turn has come.
type turnTask interface {
	task
	// turn passes the turn to the task before it runs.
	turn(t *turn)
}

// workers run services. Up to maxIdleWorkers goroutines wait for the next task when they
// are done.
//
// The calls of one connection must not keep the processors from others. So calls run in
// turns, a few for each processor, in a fair order between connections (package fair). A
// call keeps its turn until it is served, waits for something outside (oncrpc.Call.Waits),
// or has run for turnTime. So no call waits for another to end. Each call that got its turn
// has a goroutine, so the granted credits limit the number of goroutines.
type workers struct {
	hand   chan job // to a waiting worker
	quit   chan struct{}
	wait   atomic.Int32
	active sync.WaitGroup

	mu    sync.Mutex
	turns turns
	queue fair.Queue[turnTask]
	heavy int         // flows with a weight other than 1
	timer *time.Timer // runs while calls wait for their turn
	armed bool
}

// job is a task and its turn, if it has one.
type job struct {
	t    task
	turn turn
}

func (w *workers) start() {
	w.hand = make(chan job)
	w.quit = make(chan struct{})
	w.turns.most = max(leastTurns, turnsEach*runtime.GOMAXPROCS(0))
}

// run runs t in a worker at once. It does not wait for t.
func (w *workers) run(t task) { w.give(job{t: t}) }

// give hands a job to a worker.
func (w *workers) give(j job) {
	select {
	case w.hand <- j:
	default:
		w.active.Go(func() { w.work(j) })
	}
}

// serve runs t in a worker when the turn of its flow has come, perhaps at once. It does not
// wait for t.
func (w *workers) serve(f *fair.Flow[turnTask], t turnTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue.Len() == 0 && w.turns.free() {
		w.give(job{t, w.turns.begin()})
		return
	}
	w.queue.Push(f, t)
	w.armLocked()
}

// setWeight changes a flow's weight.
func (w *workers) setWeight(f *fair.Flow[turnTask], weight uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Weight > 1 {
		w.heavy--
	}
	if f.Weight = int(weight); f.Weight > 1 {
		w.heavy++
	}
}

// calm reports whether calls need not take turns: a worker would serve one at once, and
// all connections have the same weight. Then a connection's leader may serve several, for a
// moment.
func (w *workers) calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heavy == 0 && w.queue.Len() == 0 && w.turns.free()
}

// work runs a job, and then further jobs.
func (w *workers) work(j job) {
	for {
		for ok := true; ok; j, ok = w.next(&j.turn) {
			if t, has := j.t.(turnTask); has {
				t.turn(&j.turn)
			}
			j.t.run()
		}
		j = job{}
		if w.wait.Add(1) > maxIdleWorkers {
			w.wait.Add(-1)
			return
		}
		select {
		case j = <-w.hand:
			w.wait.Add(-1)
		case <-w.quit:
			w.wait.Add(-1)
			return
		}
	}
}

// next ends a turn, and returns the next task with a turn.
func (w *workers) next(t *turn) (j job, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns.end(t)
	return w.nextLocked()
}

func (w *workers) nextLocked() (j job, ok bool) {
	if !w.turns.free() {
		return j, false
	}
	t, ok := w.queue.Pop()
	if !ok {
		return j, false
	}
	return job{t, w.turns.begin()}, true
}

// waits ends a turn. Its task continues without it.
func (w *workers) waits(t *turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns.end(t)
	w.fillLocked()
}

// fillLocked gives all free turns to tasks.
func (w *workers) fillLocked() {
	for j, ok := w.nextLocked(); ok; j, ok = w.nextLocked() {
		w.give(j)
	}
}

func (w *workers) armLocked() {
	switch {
	case w.armed:
		return
	case w.timer == nil:
		w.timer = time.AfterFunc(turnTime, w.look)
	default:
		w.timer.Reset(turnTime)
	}
	w.armed = true
}

// look ends the turns of tasks that have had them for turnTime or longer.
func (w *workers) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.turns.age()
	w.fillLocked()
	if w.queue.Len() > 0 {
		w.armLocked()
	}
}

// close waits until all workers are done. No task is run any more.
func (w *workers) close() {
	w.mu.Lock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	close(w.quit)
	w.active.Wait()
}

// turns counts the tasks that have a turn. A turn counts in its generation and the next
// one.
type turns struct {
	most  int
	gen   uint64
	young [2]int // of this generation and the one before, by generation
}

// turn is a task's turn. The zero value is no turn.
type turn struct {
	gen   uint64
	taken bool
}

// free reports whether one more task may have a turn.
func (s *turns) free() bool { return s.young[0]+s.young[1] < s.most }

func (s *turns) begin() turn {
	s.young[s.gen&1]++
	return turn{s.gen, true}
}

// end ends a turn, unless it has ended already.
func (s *turns) end(t *turn) {
	if t.taken && s.gen-t.gen < 2 {
		s.young[t.gen&1]--
	}
	t.taken = false
}

// age begins a new generation.
func (s *turns) age() {
	s.gen++
	s.young[s.gen&1] = 0
}
