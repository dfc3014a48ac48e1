package verbstest

import (
	"github.com/rdmad/rdmad/verbs"
)

// Reads beyond the limit wait and complete in order, with their data, for any IRD and ORD.
func testReads(e *env) {
	for _, depth := range []int{1, 2, 16} {
		p := e.pair(Options{Reads: depth})
		ird, ord := p.A.ID.Negotiated()
		birdB, ordB := p.B.ID.Negotiated()
		if ord < 1 || ord > depth || ord > birdB || ordB > depth || ordB > ird {
			e.Fatalf("asked for %d: A has IRD %d and ORD %d, B %d and %d", depth, ird, ord, birdB, ordB)
		}
		Fill(p.B.MR.Bytes(), uint64(depth))
		const count, n = 48, 1021
		var wrs []verbs.SendWR
		for i := range count {
			wrs = append(wrs, Read(uint64(i), p.B.Remote(i*n/2), p.A.SGE(i*n, n)))
		}
		p.A.Post(wrs...)
		for i := range count {
			if wc := p.A.Done(uint64(i), verbs.WCRDMARead); wc.ByteLen != n {
				e.Fatalf("read %d: %d bytes, not %d", i, wc.ByteLen, n)
			}
			sameBytes(e, "read", p.A.Bytes(i*n, n), p.B.Bytes(i*n/2, n))
		}
		p.Exchange(1)
	}
}

// A fenced Send waits for the Reads before it, so it can send their data.
func testFence(e *env) {
	p := e.pair(Options{Reads: 4})
	const n = 4000
	for i := range uint64(50) {
		Fill(p.B.Bytes(0, 3*n), i)
		p.B.Receive(i, 4*n, 3*n)
		p.A.Post(
			Unsignaled(Read(0, p.B.Remote(0), p.A.SGE(0, n))),
			Unsignaled(Read(0, p.B.Remote(n), p.A.SGE(n, n))),
			Unsignaled(Read(0, p.B.Remote(2*n), p.A.SGE(2*n, n))),
			Fenced(Send(i, p.A.SGE(0, 3*n))))
		p.B.Got(i, 3*n)
		sameBytes(e, "sent after it was read", p.B.Bytes(4*n, 3*n), p.B.Bytes(0, 3*n))
		p.A.Done(i, verbs.WCSend)
	}
}

// Both sides read from each other at once, between other traffic.
func testReadsBothWays(e *env) {
	p := e.pair(Options{Reads: 2})
	const count, n = 20, 3000
	Fill(p.A.Bytes(0, n), 1)
	Fill(p.B.Bytes(0, n), 2)
	for i := range uint64(count) {
		p.A.Post(Read(i, p.B.Remote(0), p.A.SGE(8192, n)), Unsignaled(Write(0, p.B.Remote(16384), p.A.SGE(0, n))))
		p.B.Post(Read(i, p.A.Remote(0), p.B.SGE(8192, n)), Unsignaled(Write(0, p.A.Remote(16384), p.B.SGE(0, n))))
	}
	for i := range uint64(count) {
		p.A.Done(i, verbs.WCRDMARead)
		p.B.Done(i, verbs.WCRDMARead)
	}
	p.A.tell(p.B)
	p.B.tell(p.A)
	sameBytes(e, "A read", p.A.Bytes(8192, n), p.B.Bytes(0, n))
	sameBytes(e, "B read", p.B.Bytes(8192, n), p.A.Bytes(0, n))
	sameBytes(e, "A wrote", p.B.Bytes(16384, n), p.A.Bytes(0, n))
	sameBytes(e, "B wrote", p.A.Bytes(16384, n), p.B.Bytes(0, n))
}
