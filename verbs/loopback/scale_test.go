package loopback

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A thousand connections live in one bubble of simulated time, each with two
// goroutines that wait for completions; simulated time costs nothing.
func TestThousandConnectionsSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections, rounds, delay = 1000, 5, 50 * time.Millisecond
		p := New(Config{})
		o := verbstest.Options{Buffer: 128, SendWR: 1, RecvWR: 2, CQDepth: 4}
		var pairs [connections]*verbstest.Pair
		for i := range pairs {
			pairs[i] = verbstest.NewPair(t, p, p, o)
			repost(t, pairs[i].A)
			repost(t, pairs[i].B)
		}
		p.Fabric().SetDelay(delay)
		done := make(chan bool)
		start := time.Now()
		for _, pair := range pairs {
			go func() { done <- play(t, pair.A, rounds, post, await) }()
			go func() { done <- play(t, pair.B, rounds, await, post) }()
		}
		for range 2 * connections {
			if !<-done {
				t.Error("a connection broke")
			}
		}
		if got, want := time.Since(start), rounds*2*delay; got != want {
			t.Errorf("%d connections at once took %v, one alone takes %v", connections, got, want)
		}
	})
}

// play does its steps in turn.
func play(t *testing.T, s *verbstest.Side, rounds int, steps ...func(*testing.T, *verbstest.Side) bool) bool {
	for range rounds {
		for _, step := range steps {
			if !step(t, s) {
				return false
			}
		}
	}
	return true
}

func repost(t *testing.T, s *verbstest.Side) bool {
	_, err := s.QP.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{s.SGE(0, 64)}}})
	return ok(t, err)
}

func post(t *testing.T, s *verbstest.Side) bool {
	_, err := s.QP.PostSend([]verbs.SendWR{verbstest.Send(1, s.SGE(64, 64))})
	return ok(t, err) && completed(t, s.SendCQ)
}

// await takes a message and makes room for the next.
func await(t *testing.T, s *verbstest.Side) bool {
	return completed(t, s.RecvCQ) && repost(t, s)
}

func completed(t *testing.T, cq verbs.CQ) bool {
	wc, err := verbstest.Next(t.Context(), cq)
	return ok(t, err) && wc.Status == verbs.WCSuccess
}

func ok(t *testing.T, err error) bool {
	should(t, err)
	return err == nil
}
