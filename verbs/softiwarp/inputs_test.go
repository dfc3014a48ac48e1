package softiwarp

import (
	"runtime"
	"testing"

	"github.com/rdmad/rdmad/verbs"
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
		if err := p.a.id.Disconnect(); err != nil {
			t.Error(err)
		}
		<-p.b.id.Disconnected()
	}
}
