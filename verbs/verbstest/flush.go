package verbstest

import (
	"github.com/rdmad/rdmad/verbs"
)

const sentinel = 1 << 60

// drain polls all completions of a side in the error state. It posts one more request to
// each queue, whose flush comes after all others.
func (s *Side) drain() (sends, recvs []verbs.WC) {
	s.t.Helper()
	s.Post(Send(sentinel, s.SGE(0, 1)))
	s.Receive(sentinel, 0, 1)
	take := func(next func() verbs.WC) (all []verbs.WC) {
		for {
			wc := next()
			if wc.ID == sentinel {
				if wc.Status != verbs.WCWRFlushErr {
					s.t.Fatalf("posted in the error state: %+v (%v)", wc, wc.Status)
				}
				return all
			}
			all = append(all, wc)
		}
	}
	return take(s.Sent), take(s.Received)
}

// exactlyOnce drains a side in the error state. Each request must complete once, and
// nothing else may. In each queue successes come first, then at most one failed request,
// then flushed requests.
func exactlyOnce(t TB, s *Side, sends, recvs []uint64) {
	t.Helper()
	gotSends, gotRecvs := s.drain()
	inOrder(t, "send", gotSends, sends)
	inOrder(t, "receive", gotRecvs, recvs)
}

func inOrder(t TB, what string, got []verbs.WC, want []uint64) {
	t.Helper()
	failed := false
	for i, wc := range got {
		switch {
		case i >= len(want) || wc.ID != want[i]:
			t.Fatalf("%s completion %d of %v is %+v", what, i, want, wc)
		case failed && wc.Status != verbs.WCWRFlushErr:
			t.Fatalf("%s %d completed with %v after a failure", what, wc.ID, wc.Status)
		}
		failed = failed || wc.Status != verbs.WCSuccess
	}
	if len(got) != len(want) {
		t.Fatalf("%d %s completions of %v", len(got), what, want)
	}
}

// ids returns the numbers from first on.
func ids(first uint64, n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = first + uint64(i)
	}
	return all
}

// Whatever is outstanding when a queue pair fails completes exactly once, on
// both sides, and so does what is posted later.
func testFlushOnFail(e *env) {
	for round := range 10 {
		p := e.pair(Options{})
		loadBoth(p)
		p.A.QP.Fail()
		p.A.Ended()
		if err := p.B.Ended(); err == nil {
			e.Fatalf("round %d: no reason", round)
		}
		exactlyOnce(e, p.A, ids(1, 48), ids(100, 16))
		exactlyOnce(e, p.B, ids(200, 16), ids(300, 32))
		p.Close()
	}
}

// loadBoth fills the queues of both sides: sends 1-48 and receives 100-115
// at A, sends 200-215 and receives 300-331 at B.
func loadBoth(p *Pair) {
	for i := range 32 {
		p.B.Receive(uint64(300+i), 64*i, 64)
	}
	for i := range 16 {
		p.A.Receive(uint64(100+i), 64*i, 64)
	}
	for i := range uint64(16) {
		p.B.Post(Write(200+i, p.A.Remote(32768), p.B.SGE(32768, 2048)))
		p.A.Post(
			Read(1+3*i, p.B.Remote(40960), p.A.SGE(40960, 8192)),
			Write(2+3*i, p.B.Remote(16384), p.A.SGE(16384, 8192)),
			Send(3+3*i, p.A.SGE(8192, 64)))
	}
}

// The same applies when the peer closes its side.
func testFlushOnPeerClose(e *env) {
	for range 10 {
		p := e.pair(Options{})
		loadBoth(p)
		p.B.Close()
		p.A.Ended()
		exactlyOnce(e, p.A, ids(1, 48), ids(100, 16))
		p.Close()
	}
}

// Posting in the error state succeeds, many times over, and each request is
// flushed.
func testPostInError(e *env) {
	p := e.pair(Options{SendWR: 8, RecvWR: 8})
	p.A.QP.Fail()
	p.A.Ended()
	for round := range uint64(5) {
		for i := range uint64(8) {
			p.A.Post(Unsignaled(Send(8*round+i, p.A.SGE(0, 1))))
			p.A.Receive(8*round+i, 0, 1)
		}
		for i := range uint64(8) {
			if wc := p.A.Sent(); wc.ID != 8*round+i || wc.Status != verbs.WCWRFlushErr {
				e.Fatalf("send: %+v", wc)
			}
			if wc := p.A.Received(); wc.ID != 8*round+i || wc.Status != verbs.WCWRFlushErr {
				e.Fatalf("receive: %+v", wc)
			}
		}
	}
}

// After Close of a queue pair its completions are dropped, and its memory belongs to the
// caller again.
func testCloseDropsCompletions(e *env) {
	p := e.pair(Options{})
	loadBoth(p)
	Must(e, p.A.QP.Close())
	var wc [64]verbs.WC
	if n := p.A.SendCQ.Poll(wc[:]) + p.A.RecvCQ.Poll(wc[:]); n != 0 {
		e.Fatalf("%d completions of a closed queue pair", n)
	}
	Fill(p.A.MR.Bytes(), 3)
	p.B.Ended()
	sameBytes(e, "memory of a closed queue pair", p.A.MR.Bytes(), filled(len(p.A.MR.Bytes()), 3))
}
