package transport

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// TestFarAway: farReads messages in a row that take long show that a peer is far away, and one that is fast shows
// that it is not. Messages read with more than a window before them show neither; after farTime of them the peer is
// tried again.
func TestFarAway(t *testing.T) {
	l := link{now: time.Now(), reading: readWindow}
	soon, late, beyond := &fetch{by: l.now}, &fetch{by: l.now.Add(-1)}, &fetch{}
	check := func(what string, want bool, messages ...*fetch) {
		t.Helper()
		for _, f := range messages {
			l.judge(f)
		}
		if far := l.mayRead(&fetch{size: 1}); far != want {
			t.Errorf("%s: far away %v", what, far)
		}
	}
	check("three late", false, late, late, late, beyond)
	check("one soon among them", false, soon, late, late, late)
	check("four late", true, late)
	check("beyond the window", true, beyond, beyond, beyond, beyond)
	check("one soon", false, soon)
	check("far again", true, late, late, late, late)
	for range farTime {
		l.judge(beyond)
	}
	check("is tried again", false, beyond, beyond)
	check("late again", true, late)
}

type (
	idleRole struct{ role }
	idleCQ   struct{ verbs.Notifier }
)

func (idleRole) shrink() {}
func (idleCQ) Shrink()   {}

// TestIdleFetches: a connection at rest gives up the queue of messages that wait to be read, unless some wait.
func TestIdleFetches(t *testing.T) {
	l := link{role: idleRole{}}
	l.idling.cq = idleCQ{}
	for _, q := range []*fifo[*fetch]{&l.waiting, &l.ahead} {
		q.push(new(fetch))
		l.shrink()
		if q.pop() == nil {
			t.Error("lost")
		}
		if l.shrink(); q.buf != nil {
			t.Errorf("room for %d", len(q.buf))
		}
	}
}
