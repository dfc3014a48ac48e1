package verbstest

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
)

// Unsignaled requests leave no completion, and their slots are free again
// once a later request has completed.
func testUnsignaled(e *env) {
	const depth = 16
	p := e.pair(Options{SendWR: depth})
	for round := range uint64(20) {
		var wrs []verbs.SendWR
		for i := range depth - 1 {
			wrs = append(wrs, Unsignaled(Write(1000, p.B.Remote(i), p.A.SGE(i, 1))))
		}
		p.A.Post(append(wrs, Write(round, p.B.Remote(0), p.A.SGE(0, 1)))...)
		p.A.Done(round, verbs.WCRDMAWrite)
	}
}

// Without a later completion their slots stay in use, whether they are
// posted at once or one by one.
func testUnsignaledSlots(e *env) {
	const depth = 8
	for _, batch := range []int{1, depth + 1} {
		p := e.pair(Options{SendWR: depth})
		wrs := make([]verbs.SendWR, batch)
		for i := range wrs {
			wrs[i] = Unsignaled(Write(uint64(i), p.B.Remote(0), p.A.SGE(0, 1)))
		}
		taken := 0
		var err error
		for err == nil && taken <= depth {
			var n int
			n, err = p.A.QP.PostSend(wrs)
			taken += n
		}
		if taken != depth || !errors.Is(err, verbs.ErrQueueFull) {
			e.Fatalf("%d at a time into a queue of %d: took %d, %v", batch, depth, taken, err)
		}
	}
}

// Every operation can be unsignaled.
func testUnsignaledOperations(e *env) {
	p := e.pair(Options{})
	p.B.PostRecv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
	wrs := []verbs.SendWR{
		Send(10), Write(11, p.B.Remote(0), p.A.SGE(0, 8)), Read(12, p.B.Remote(0), p.A.SGE(0, 8)),
	}
	if e.invalidates() {
		mine, other := p.A.Window(), p.B.Window()
		p.A.Post(Unsignaled(Bind(13, verbs.BindInfo{MW: mine, MR: p.A.MR, Length: 8, Access: verbs.AccessRemoteRead})))
		w := p.B.bound(other, p.B.MR, 0, 8, verbs.AccessRemoteRead)
		wrs = append(wrs, LocalInvalidate(14, mine.RKey()), SendInvalidate(15, w.RKey))
	}
	for _, wr := range wrs {
		p.A.Post(Unsignaled(wr))
	}
	p.A.Post(Write(16, p.B.Remote(0), p.A.SGE(0, 1)))
	p.A.Done(16, verbs.WCRDMAWrite)
	p.B.Got(1, 0)
}

// A failure completes even when nobody asked.
func testUnsignaledFailure(e *env) {
	p := e.pair(Options{})
	p.A.Post(Unsignaled(Read(5, Remote{p.B.MR.Addr(), ^p.B.MR.RKey()}, p.A.SGE(0, 8))))
	wc := p.A.Sent()
	if wc.ID != 5 || wc.Status == verbs.WCSuccess {
		e.Fatalf("refused Read completed with %+v", wc)
	}
	p.A.Ended()
	p.B.Ended()
}

// SigAll makes every request complete.
func testSigAll(e *env) {
	p := e.pair(Options{SigAll: true})
	for i := range uint64(10) {
		p.A.Post(Unsignaled(Write(i, p.B.Remote(0), p.A.SGE(0, 1))))
		p.A.Done(i, verbs.WCRDMAWrite)
	}
}
