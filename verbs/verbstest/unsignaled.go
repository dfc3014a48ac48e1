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

// Without a later completion their slots stay in use.
func testUnsignaledSlots(e *env) {
	const depth = 8
	p := e.pair(Options{SendWR: depth})
	wrs := make([]verbs.SendWR, depth+1)
	for i := range wrs {
		wrs[i] = Unsignaled(Write(uint64(i), p.B.Remote(0), p.A.SGE(0, 1)))
	}
	n, err := p.A.QP.PostSend(wrs)
	if n != depth || !errors.Is(err, verbs.ErrQueueFull) {
		e.Fatalf("post of %d into a queue of %d: took %d, %v", len(wrs), depth, n, err)
	}
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
