package rpcrdma_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// inputsEach is how many inputs one fixture of a fuzz target serves. Its end checks
// that nothing is left of any of them.
const inputsEach = 64

// fixture is what a fuzz target keeps from one input to the next, because it costs
// more than an input: a listener, a provider.
type fixture[T any] struct {
	lifetime
	open func(testing.TB) T
	now  T
	uses int
}

// keep has open make a fixture when there is none. open's TB fails the input at hand.
func keep[T any](f *testing.F, open func(testing.TB) T) *fixture[T] {
	x := &fixture[T]{lifetime: lifetime{TB: f}, open: open}
	f.Cleanup(x.end)
	return x
}

// take gives the fixture for an input.
func (x *fixture[T]) take(t *testing.T) T {
	t.Cleanup(func() { x.serve(nil) })
	x.serve(t)
	if x.uses%inputsEach == 0 {
		x.end()
		x.now = x.open(&x.lifetime)
	}
	x.uses++
	return x.now
}

// fuzzFabric is a fabric on which each input has a client of its own.
type fuzzFabric struct {
	*fabric
	live verbs.Live
}

func newFuzzFabric(t testing.TB) *fuzzFabric {
	n := &fuzzFabric{fabric: newFabric(t, loopback.New(loopback.Config{}), true)}
	n.live = n.p.Device().(verbs.LiveCounter).Live()
	return n
}

// liar connects a client, which leaves nothing when its test ends.
func (n *fuzzFabric) liar(t *testing.T, s *rpcrdma.Settings) *liar {
	t.Cleanup(func() {
		if live := n.p.Device().(verbs.LiveCounter).Live(); live != n.live {
			t.Errorf("objects left: %+v, %+v before", live, n.live)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	l := &liar{raw: &raw{t: t, ctx: ctx, places: 4}} // the client's messages are looked at as they come
	n.connect(l, kernelPrivateData, rpcrdma.DialConfig{Settings: s}, func(*liar) {})
	return l
}

// teller is liar for version 2.
func (n *fuzzFabric) teller(t *testing.T) *teller {
	s := rpcrdma.DefaultSettings()
	speakingWith(continuation)(&s)
	l := &teller{n.liar(t, &s)}
	l.greet()
	return l
}

// lifetime is the testing.TB of a fixture.
type lifetime struct {
	testing.TB // the fuzz target, which inputs may not use
	ends       []func()

	mu    sync.Mutex
	input testing.TB // nil between inputs
}

func (l *lifetime) serve(input testing.TB) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.input = input
}

// at is the input at hand, or the target.
func (l *lifetime) at() testing.TB {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.input != nil {
		return l.input
	}
	return l.TB
}

func (l *lifetime) Cleanup(f func()) { l.ends = append(l.ends, f) }

// end ends the fixture, last part first.
func (l *lifetime) end() {
	for len(l.ends) > 0 {
		last := len(l.ends) - 1
		f := l.ends[last]
		l.ends = l.ends[:last]
		f()
	}
}

func (l *lifetime) Helper()                           {}
func (l *lifetime) Error(args ...any)                 { l.at().Error(args...) }
func (l *lifetime) Errorf(format string, args ...any) { l.at().Errorf(format, args...) }
func (l *lifetime) Fatal(args ...any)                 { l.at().Fatal(args...) }
func (l *lifetime) Fatalf(format string, args ...any) { l.at().Fatalf(format, args...) }
