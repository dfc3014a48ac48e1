package verbstest

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/verbs"
)

// Sends of batches of many sizes arrive and complete in order.
func testSendOrder(e *env) {
	const total, slot = 240, 8
	p := e.pair(Options{SendWR: 256, RecvWR: 256})
	for i := range total {
		binary.BigEndian.PutUint64(p.A.Bytes(i*slot, slot), uint64(i)*3)
		p.B.Receive(uint64(i), i*slot, slot)
	}
	for i, batch := 0, 1; i < total; batch++ {
		var wrs []verbs.SendWR
		for ; i < total && len(wrs) < batch; i++ {
			wrs = append(wrs, Send(uint64(i), p.A.SGE(i*slot, slot)))
		}
		p.A.Post(wrs...)
	}
	for i := range uint64(total) {
		p.B.Got(i, slot)
		p.A.Done(i, verbs.WCSend)
		if got := binary.BigEndian.Uint64(p.B.Bytes(int(i)*slot, slot)); got != i*3 {
			e.Fatalf("receive %d holds message %d", i, got/3)
		}
	}
}

// Requests of different kinds complete in the order they were posted.
func testCompletionOrder(e *env) {
	p := e.pair(Options{})
	const n = 512
	for round := range 20 {
		p.B.Receive(1, 0, n)
		p.B.Receive(2, n, n)
		here, there := p.A.SGE(0, n), p.B.Remote(4*n)
		p.A.Post(
			Write(10, there, here), Read(11, there, p.A.SGE(2*n, n)), Send(12, here),
			Read(13, there, p.A.SGE(3*n, n)), Write(14, there, here), Send(15, here),
			Read(16, there, p.A.SGE(4*n, n)), Write(17, there))
		for i, op := range []verbs.WCOpcode{
			verbs.WCRDMAWrite, verbs.WCRDMARead, verbs.WCSend, verbs.WCRDMARead,
			verbs.WCRDMAWrite, verbs.WCSend, verbs.WCRDMARead, verbs.WCRDMAWrite,
		} {
			p.A.Done(uint64(10+i), op)
		}
		p.B.Got(1, n)
		p.B.Got(2, n)
		if e.Failed() {
			e.Fatalf("in round %d", round)
		}
	}
}

// A Write is in place when a Send after it has been received.
func testWriteThenSend(e *env) {
	p := e.pair(Options{})
	const n = 3000
	for round := range uint64(100) {
		from, to := p.A, p.B
		if round%2 == 1 {
			from, to = to, from
		}
		Fill(from.Bytes(0, n), round)
		to.Receive(round, 0, 16)
		from.Post(Unsignaled(Write(0, to.Remote(8192), from.SGE(0, n))), Send(round, from.SGE(0, 4)))
		to.Got(round, 4)
		sameBytes(e, "written", to.Bytes(8192, n), from.Bytes(0, n))
		from.Done(round, verbs.WCSend)
	}
}

// A Read sees the Writes posted before it.
func testReadAfterWrite(e *env) {
	p := e.pair(Options{})
	const n = 2000
	for round := range uint64(100) {
		Fill(p.A.Bytes(0, n), round)
		p.A.Post(Unsignaled(Write(0, p.B.Remote(77), p.A.SGE(0, n))), Read(round, p.B.Remote(77), p.A.SGE(8192, n)))
		p.A.Done(round, verbs.WCRDMARead)
		sameBytes(e, "read back", p.A.Bytes(8192, n), p.A.Bytes(0, n))
	}
}
