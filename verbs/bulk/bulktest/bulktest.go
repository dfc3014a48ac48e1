// Package bulktest takes all places of package bulk, for tests of packages that need them.
package bulktest

import (
	"runtime"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/verbs/bulk"
)

// Places are all places of the process.
type Places struct {
	n       int
	release chan struct{}
	left    sync.WaitGroup
}

// Occupy takes all places, or is the first to wait for them. The test must Release them.
// Nothing else in the process may move much data meanwhile, except what the test is about.
func Occupy() *Places {
	p := &Places{n: bulk.Places(), release: make(chan struct{})}
	for range p.n {
		p.left.Go(func() {
			placed := bulk.Enter(bulk.Large + 1)
			<-p.release
			bulk.Leave(placed)
		})
	}
	for inside, waiting := bulk.Usage(); inside+waiting < p.n; inside, waiting = bulk.Usage() {
		runtime.Gosched()
	}
	return p
}

// AwaitOne waits until another goroutine waits for a place. The test fails if done, which
// that goroutine closes when it has moved its data, is closed before.
func (p *Places) AwaitOne(t testing.TB, done <-chan struct{}) {
	t.Helper()
	for inside, waiting := bulk.Usage(); inside+waiting <= p.n; inside, waiting = bulk.Usage() {
		select {
		case <-done:
			t.Error("much data was moved without a place")
			return
		default:
			runtime.Gosched()
		}
	}
}

// Release gives the places back.
func (p *Places) Release() {
	close(p.release)
	p.left.Wait()
}

// AwaitNone waits until nobody has a place.
func AwaitNone() {
	for inside, _ := bulk.Usage(); inside > 0; inside, _ = bulk.Usage() {
		runtime.Gosched()
	}
}
