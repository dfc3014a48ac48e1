package verbstest

import (
	"errors"
	"math"

	"github.com/rdmad/rdmad/verbs"
)

// An invalid request stops its batch, and the result names it. The requests before it are
// executed, and the queue pair keeps its state.
func testBadSends(e *env) {
	p := e.pair(Options{SGE: 4})
	for _, c := range badSends(e, p.A, p.B.Remote(0)) {
		p.B.Receive(1, 0, 64)
		p.B.Receive(2, 64, 64)
		n, err := p.A.QP.PostSend([]verbs.SendWR{
			Send(10, p.A.SGE(0, 7)), Send(11, p.A.SGE(0, 9)), c.wr, Send(12, p.A.SGE(0, 1)),
		})
		if n != 2 || !errors.Is(err, verbs.ErrInvalid) {
			e.Fatalf("%s: took %d, %v; not 2, %v", c.name, n, err, verbs.ErrInvalid)
		}
		p.A.Done(10, verbs.WCSend)
		p.A.Done(11, verbs.WCSend)
		p.B.Got(1, 7)
		p.B.Got(2, 9)
	}
	p.Exchange(1)
}

type badSend struct {
	name string
	wr   verbs.SendWR
}

func badSends(e *env, s *Side, to Remote) []badSend {
	size := len(s.MR.Bytes())
	readOnly := s.Register(make([]byte, 64), 0)
	foreign, closed := foreignMR(s), closedMR(s)
	sge := func(off, n int) verbs.SGE { return s.SGE(off, n) }
	bad := []badSend{
		{"one byte beyond the region", Send(0, sge(size-9, 10))},
		{"offset beyond the region", Send(0, sge(size+1, 0))},
		{"negative offset", Write(0, to, sge(-1, 10))},
		{"negative length", Write(0, to, sge(10, -1))},
		{"length that overflows", Send(0, sge(10, math.MaxInt))},
		{"second entry beyond the region", Send(0, sge(0, 1), sge(size, 1))},
		{"too many entries", Send(0, sge(0, 1), sge(1, 1), sge(2, 1), sge(3, 1), sge(4, 1))},
		{"no region", Send(0, verbs.SGE{Length: 1})},
		{"region of another PD", Send(0, verbs.SGE{MR: foreign, Length: 1})},
		{"closed region", Send(0, verbs.SGE{MR: closed, Length: 1})},
		{"sink without local write access", Read(0, to, verbs.SGE{MR: readOnly, Length: 1})},
		{"sink beyond the region", Read(0, to, sge(size, 1))},
		{"unknown operation", verbs.SendWR{Op: 200, SGL: []verbs.SGE{sge(0, 1)}}},
	}
	if e.attr.ReadSinkRemoteWrite {
		local := s.Register(make([]byte, 64), verbs.AccessLocalWrite)
		bad = append(bad, badSend{"sink without remote write access", Read(0, to, verbs.SGE{MR: local, Length: 1})})
	}
	return bad
}

// foreignMR is a region in another protection domain of the same device.
func foreignMR(s *Side) verbs.MR {
	pd, err := s.ID.Device().AllocPD()
	Must(s.t, err)
	s.extra = append(s.extra, pd.Close)
	mr, err := pd.RegMR(make([]byte, 64), AllAccess)
	Must(s.t, err)
	s.extra = append(s.extra, mr.Close)
	return mr
}

func closedMR(s *Side) verbs.MR {
	mr, err := s.PD.RegMR(make([]byte, 64), AllAccess)
	Must(s.t, err)
	Must(s.t, mr.Close())
	return mr
}

// The same for Receives.
func testBadReceives(e *env) {
	p := e.pair(Options{SGE: 2})
	size := len(p.B.MR.Bytes())
	readOnly := p.B.Register(make([]byte, 64), verbs.AccessRemoteRead)
	for name, sgl := range map[string][]verbs.SGE{
		"beyond the region":          {p.B.SGE(size-9, 10)},
		"negative length":            {p.B.SGE(0, -1)},
		"too many entries":           {p.B.SGE(0, 1), p.B.SGE(1, 1), p.B.SGE(2, 1)},
		"region of another PD":       {{MR: foreignMR(p.B), Length: 1}},
		"without local write access": {{MR: readOnly, Length: 1}},
	} {
		n, err := p.B.QP.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{p.B.SGE(0, 9)}}, {ID: 2, SGL: sgl}})
		if n != 1 || !errors.Is(err, verbs.ErrInvalid) {
			e.Fatalf("%s: took %d, %v; not 1, %v", name, n, err, verbs.ErrInvalid)
		}
		p.A.Post(Send(3, p.A.SGE(0, 5)))
		p.B.Got(1, 5)
		p.A.Done(3, verbs.WCSend)
	}
	p.Exchange(1)
}

// Queues accept exactly as many requests as they were created for.
func testQueueFull(e *env) {
	const depth = 8
	p := e.pair(Options{RecvWR: depth})
	wrs := make([]verbs.RecvWR, depth+2)
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{p.B.SGE(64*i, 64)}}
	}
	n, err := p.B.QP.PostRecv(wrs)
	if n != depth || !errors.Is(err, verbs.ErrQueueFull) {
		e.Fatalf("post of %d into a queue of %d: took %d, %v", len(wrs), depth, n, err)
	}
	p.A.Post(Send(1, p.A.SGE(0, 5)))
	p.B.Got(0, 5)
	if n, err := p.B.QP.PostRecv(wrs[depth:]); n != 1 || !errors.Is(err, verbs.ErrQueueFull) {
		e.Fatalf("post into the one slot that is free: took %d, %v", n, err)
	}
}

// Changes to the caller's slices after posting have no effect.
func testPostCopies(e *env) {
	p := e.pair(Options{})
	sgl := []verbs.SGE{p.B.SGE(100, 8)}
	recv := []verbs.RecvWR{{ID: 1, SGL: sgl}}
	p.B.PostRecv(recv...)
	sgl[0], recv[0] = p.B.SGE(200, 1), verbs.RecvWR{}
	Fill(p.A.Bytes(0, 8), 1)
	from := []verbs.SGE{p.A.SGE(0, 8)}
	wrs := []verbs.SendWR{Read(2, p.B.Remote(0), p.A.SGE(8, 8)), Fenced(Send(3, from...))}
	wrs[1].SGL = from
	p.A.Post(wrs...)
	from[0], wrs[1] = p.A.SGE(0, 0), verbs.SendWR{}
	p.B.Got(1, 8)
	sameBytes(e, "received", p.B.Bytes(100, 8), p.A.Bytes(0, 8))
	p.A.Done(2, verbs.WCRDMARead)
	p.A.Done(3, verbs.WCSend)
}

// Before a connection Receives may be posted and Sends may not; Fail flushes.
func testBeforeConnection(e *env) {
	id, err := e.active.Resolve(e.Context(), e.ln.Addr().String())
	Must(e, err)
	s := e.side(id, Options{})
	if st := s.QP.State(); st != verbs.QPInit {
		e.Errorf("new queue pair in state %d", st)
	}
	if err := s.QP.Err(); err != nil {
		e.Errorf("new queue pair: %v", err)
	}
	s.Receive(7, 0, 8)
	n, err := s.QP.PostSend([]verbs.SendWR{Send(1, s.SGE(0, 1))})
	if n != 0 || !errors.Is(err, verbs.ErrQPState) {
		e.Errorf("send before the connection: took %d, %v", n, err)
	}
	s.QP.Fail()
	if wc := s.Received(); wc.ID != 7 || wc.Status != verbs.WCWRFlushErr {
		e.Errorf("receive of a failed queue pair: %+v", wc)
	}
	if st := s.QP.State(); st != verbs.QPErr || s.QP.Err() == nil {
		e.Errorf("failed queue pair in state %d: %v", st, s.QP.Err())
	}
}
