package softiwarp

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/notices"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// unattended reports whether nobody reads a side's connection.
func (s *side) unattended() bool {
	q := s.qp.(*queuePair)
	return q.reading.Away()
}

// TestUnattended: a connection without input has no goroutine. Input is read although nobody
// waits for completions: messages complete, RDMA Reads are answered, and a Terminate and the
// end arrive.
func TestUnattended(t *testing.T) {
	const pairs = 20
	type pair struct{ a, b *side }
	var all []pair
	for range pairs {
		a, b := connectPair(t, Config{}, Config{})
		all = append(all, pair{a, b})
	}
	for _, p := range all {
		for _, s := range []*side{p.a, p.b} {
			s.cq.(verbs.Notifier).ReqNotify(func() {})
			for !s.unattended() { // the passive side may still read the RTR indication
				runtime.Gosched()
			}
		}
		p.b.recv(verbs.RecvWR{ID: 7})
		p.a.send(verbs.SendWR{Flags: verbs.SendSignaled})
		for p.b.cq.Poll(p.b.one[:]) == 0 { // without Wait
			runtime.Gosched()
		}
		if wc := p.b.one[0]; wc.ID != 7 || wc.Status != verbs.WCSuccess {
			t.Errorf("%+v", wc)
		}
		p.a.succeed(1)
		verbstest.Should(t, p.a.id.Disconnect())
		<-p.b.id.Disconnected()
	}
}

// goroutinesMade returns how many goroutines this process has made so far.
func goroutinesMade() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestUnwatched: when the system watches no socket, a connection that rests has a goroutine that
// waits for input, instead of one after another that look for it.
func TestUnwatched(t *testing.T) {
	p := newProvider(t, Config{})
	refused, err := notices.New(func(uint64) {})
	verbstest.Must(t, err)
	refused.Close()
	in := &p.dev.inputs
	in.mu.Lock()
	in.notices, in.waiting = refused, make(map[uint64]*queuePair)
	in.mu.Unlock()
	a, b := connectWith(t, newProvider(t, Config{}), p, testParam, testParam)
	for range 3 {
		come := make(chan struct{})
		b.recv(verbs.RecvWR{ID: 7})
		b.cq.(verbs.Notifier).ReqNotify(func() { close(come) })
		before := goroutinesMade()
		time.Sleep(20 * time.Millisecond) // for many rounds, if there were any
		if made := goroutinesMade() - before; made > 20 {
			t.Errorf("%d goroutines were made while nothing came", made)
		}
		a.send(verbs.SendWR{Flags: verbs.SendSignaled})
		<-come
		b.succeed(1)
		a.succeed(1)
	}
}
