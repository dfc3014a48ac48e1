package refereetest

import (
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// maxReported bounds the violations that one test prints.
const maxReported = 5

// Around puts a referee around each connection of p: a violation by an end that
// uses the result fails the test. Peers that use p itself are not judged. A
// benchmark measures p alone: it gets p back.
func Around(t testing.TB, p rdmacm.Provider) rdmacm.Provider {
	if _, ok := t.(*testing.B); ok {
		return p
	}
	var (
		mu    sync.Mutex
		found int
		over  bool
	)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		if found > maxReported {
			t.Errorf("and %d violations more", found-maxReported)
		}
	})
	return Watch(p, func(v referee.Violation, before string) {
		mu.Lock()
		defer mu.Unlock()
		if found++; found <= maxReported && !over {
			t.Errorf("%v; before it:%s", v, before)
		}
	})
}

// Without returns the provider that Around was put around, for an end that breaks
// rules on purpose.
func Without(p rdmacm.Provider) rdmacm.Provider {
	if w, ok := p.(*provider); ok {
		return w.Provider
	}
	return p
}

// Fatal puts a referee around each connection of p: a violation is a panic. It
// is for processes that tests start, which have no test to fail.
func Fatal(p rdmacm.Provider) rdmacm.Provider {
	return Watch(p, func(v referee.Violation, before string) {
		panic("referee: " + v.String() + "; before it:" + before)
	})
}
