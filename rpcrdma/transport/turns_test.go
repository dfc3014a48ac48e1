package transport

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
)

// turnFunc is a function as a turnTask.
type turnFunc struct {
	do    func()
	place *turn
}

func (f *turnFunc) run() { f.do() }

func (f *turnFunc) turn(t *turn) { f.place = t }

// newTurns makes workers with a number of turns.
func newTurns(most int) *workers {
	w := new(workers)
	w.start()
	w.turns.most = most
	return w
}

// TestFloodTakesTurns: while one connection has 64 calls waiting, a call of another
// is served after one call of the flood at most, and weights count.
func TestFloodTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTurns(1)
		var flood, other, heavy fair.Flow[turnTask]
		w.setWeight(&heavy, 3)
		let, served := make(chan struct{}), []string(nil)
		call := func(f *fair.Flow[turnTask], name string) {
			w.serve(f, &turnFunc{do: func() {
				<-let
				served = append(served, name)
			}})
		}
		for range 64 {
			call(&flood, "flood")
		}
		synctest.Wait()
		next := func() string {
			let <- struct{}{}
			synctest.Wait()
			return served[len(served)-1]
		}
		next()
		call(&other, "other")
		for range 8 {
			call(&heavy, "heavy")
		}
		var order []string
		for range 10 {
			order = append(order, next())
		}
		if i := slices.Index(order, "other"); i < 0 || i > 5 {
			t.Errorf("%v", order)
		}
		heavies := 0
		for _, n := range order {
			if n == "heavy" {
				heavies++
			}
		}
		if heavies < 6 || heavies > 8 {
			t.Errorf("weight 3 had %d of %v", heavies, order)
		}
		for len(served) < 64+1+8 {
			next()
		}
		w.close()
	})
}

// TestTurnsOfThoseThatWait: calls that wait do not keep others from running. They
// give up their turn at once if they say that they wait, else after a moment.
func TestTurnsOfThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, says := range []bool{true, false} {
			const n = 64
			w := newTurns(2)
			var f fair.Flow[turnTask]
			start, in, let := time.Now(), 0, make(chan struct{})
			entered := make(chan time.Duration, n)
			for range n {
				c := new(turnFunc)
				c.do = func() {
					if says {
						w.waits(c.place)
					}
					entered <- time.Since(start)
					<-let
				}
				w.serve(&f, c)
			}
			var last time.Duration
			for ; in < n; in++ {
				last = <-entered
			}
			if most := time.Duration(n) * turnTime; last > most || (says && last > 0) {
				t.Errorf("says %v: the last began after %v", says, last)
			}
			close(let)
			synctest.Wait()
			w.mu.Lock()
			if w.turns.young != [2]int{} || w.queue.Len() > 0 {
				t.Errorf("says %v: left %+v, %d", says, w.turns, w.queue.Len())
			}
			w.mu.Unlock()
			w.close()
		}
	})
}
