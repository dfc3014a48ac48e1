package verbstest

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
)

// Either side ends a connection in order: both sides notice, both flush, and both see an
// orderly end.
func testDisconnect(e *env) {
	for i, who := range []func(p *Pair){
		func(p *Pair) { Must(e, p.A.ID.Disconnect()) },
		func(p *Pair) { Must(e, p.B.ID.Disconnect()) },
		func(p *Pair) {
			Must(e, p.A.ID.Disconnect())
			Must(e, p.B.ID.Disconnect())
		},
	} {
		p := e.pair(Options{})
		p.Exchange(1)
		p.A.Receive(1, 0, 8)
		p.B.Receive(2, 0, 8)
		select {
		case <-p.A.ID.Disconnected():
			e.Fatal("disconnected from the start")
		case <-p.B.ID.Disconnected():
			e.Fatal("disconnected from the start")
		default:
		}
		who(p)
		for _, s := range []*Side{p.A, p.B} {
			if err := s.Ended(); !errors.Is(err, verbs.ErrDisconnected) {
				e.Fatalf("case %d: ended with %v", i, err)
			}
			Must(e, s.ID.Disconnect())
		}
		exactlyOnce(e, p.A, nil, []uint64{1})
		exactlyOnce(e, p.B, nil, []uint64{2})
	}
}

// What was posted before Disconnect arrives.
func testDisconnectDrains(e *env) {
	p := e.pair(Options{})
	const count, n = 50, 1000
	for i := range uint64(count) {
		p.B.Receive(i, int(i)*n, n)
	}
	Fill(p.A.Bytes(0, n), 1)
	Fill(p.B.Bytes(60000, n), 2)
	var wrs []verbs.SendWR
	for i := range uint64(count) {
		wrs = append(wrs, Send(i, p.A.SGE(0, n)))
	}
	p.A.Post(append(wrs, Read(count, p.B.Remote(60000), p.A.SGE(n, n)))...)
	Must(e, p.A.ID.Disconnect())
	for i := range uint64(count) {
		p.B.Got(i, n)
		sameBytes(e, "sent before the end", p.B.Bytes(int(i)*n, n), p.A.Bytes(0, n))
		p.A.Done(i, verbs.WCSend)
	}
	p.A.Done(count, verbs.WCRDMARead)
	sameBytes(e, "read before the end", p.A.Bytes(n, n), p.B.Bytes(60000, n))
	p.A.Ended()
	p.B.Ended()
}

// Closing an identifier or a queue pair, or failing it, ends the connection
// for the peer.
func testOtherEnds(e *env) {
	for name, end := range map[string]func(s *Side){
		"ID.Close": func(s *Side) { s.Close() },
		"QP.Close": func(s *Side) { Must(e, s.QP.Close()) },
		"QP.Fail":  func(s *Side) { s.QP.Fail() },
	} {
		for _, passive := range []bool{false, true} {
			p := e.pair(Options{})
			from, to := p.A, p.B
			if passive {
				from, to = to, from
			}
			to.Receive(1, 0, 8)
			end(from)
			to.Ended()
			if wc := to.Received(); wc.ID != 1 || wc.Status != verbs.WCWRFlushErr {
				e.Errorf("%s: %+v", name, wc)
			}
		}
	}
}
