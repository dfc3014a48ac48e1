package verbstest

import (
	"bytes"

	"github.com/rdmad/rdmad/verbs"
)

// A Send without a Receive ends the connection on iWARP and waits for one
// elsewhere (DeviceAttr.ReceiverNotReady).
func testReceiverNotReady(e *env) {
	witness := e.pair(Options{})
	p := e.pair(Options{})
	p.B.Receive(1, 0, 64)
	p.A.Post(Send(1, p.A.SGE(0, 10)), Send(2, p.A.SGE(0, 20)))
	p.A.Done(1, verbs.WCSend)
	p.B.Got(1, 10)
	if e.attr.ReceiverNotReady {
		p.B.Receive(2, 0, 64)
		p.B.Got(2, 20)
		p.A.Done(2, verbs.WCSend)
		p.Exchange(1)
		return
	}
	e.bothEnd(p)
	witness.Exchange(1)
}

// A Send longer than its Receive fails the Receive and changes no memory beyond it.
func testReceiveTooSmall(e *env) {
	for _, size := range []int{0, 1, 100, 5000} {
		p := e.pair(Options{})
		buf := bytes.Repeat([]byte{canary}, 16384)
		mr := p.B.Register(buf, verbs.AccessLocalWrite)
		p.B.PostRecv(
			verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{MR: mr, Offset: 4096, Length: size}}},
			verbs.RecvWR{ID: 2, SGL: []verbs.SGE{{MR: mr, Offset: 12288, Length: 64}}})
		p.A.Post(Send(1, p.A.SGE(0, size+1)))
		if wc := p.B.Received(); wc.ID != 1 || wc.Status != verbs.WCLocLenErr {
			e.Fatalf("receive of %d bytes for %d: %+v (%v)", size, size+1, wc, wc.Status)
		}
		e.bothEnd(p)
		exactlyOnce(e, p.B, nil, []uint64{2})
		for i, b := range buf {
			if b != canary && (i < 4096 || i >= 4096+size) {
				e.Fatalf("byte %d was touched; the receive is 4096 to %d", i, 4096+size)
			}
		}
	}
}

// Sends, Writes and Reads without data work like others.
func testZeroLength(e *env) {
	p := e.pair(Options{})
	p.B.PostRecv(verbs.RecvWR{ID: 1})
	p.B.Receive(2, 0, 64)
	p.A.Post(
		Send(1), Send(2, p.A.SGE(5, 0)), Write(3, p.B.Remote(0)),
		Write(4, p.B.Remote(10), p.A.SGE(0, 0)), Read(5, p.B.Remote(10), p.A.SGE(0, 0)))
	p.B.Got(1, 0)
	p.B.Got(2, 0)
	p.A.Done(1, verbs.WCSend)
	p.A.Done(2, verbs.WCSend)
	p.A.Done(3, verbs.WCRDMAWrite)
	p.A.Done(4, verbs.WCRDMAWrite)
	if wc := p.A.Done(5, verbs.WCRDMARead); wc.ByteLen != 0 {
		e.Errorf("read of nothing: %+v", wc)
	}
	p.Exchange(1)
}

// A message is gathered from several regions and scattered over several, in order. The rest
// of the Receive's memory stays unchanged.
func testScatterGather(e *env) {
	p := e.pair(Options{SGE: 6})
	src, want := gatherList(p.A)
	sinks, room := scatterList(p.B)
	p.B.PostRecv(verbs.RecvWR{ID: 1, SGL: sinks})
	p.A.Post(Send(1, src...), Write(2, p.B.Remote(1024), src...))
	p.A.Done(1, verbs.WCSend)
	p.A.Done(2, verbs.WCRDMAWrite)
	p.B.Got(1, len(want))
	p.A.tell(p.B)
	sameBytes(e, "written", p.B.Bytes(1024, len(want)), want)
	var got []byte
	for _, g := range sinks {
		got = append(got, g.MR.Bytes()[g.Offset:g.Offset+g.Length]...)
	}
	sameBytes(e, "scattered", got, append(want, bytes.Repeat([]byte{canary}, room-len(want))...))
	for _, g := range sinks {
		b := g.MR.Bytes()
		if b[g.Offset-1] != canary || b[g.Offset+g.Length] != canary {
			e.Error("bytes beside an entry were touched")
		}
	}
}

func gatherList(s *Side) (sgl []verbs.SGE, data []byte) {
	for i, n := range []int{1, 0, 700, 4097, 3} {
		mr := s.Register(filled(n+20, uint64(i)), 0)
		sgl = append(sgl, verbs.SGE{MR: mr, Offset: 10, Length: n})
		data = append(data, mr.Bytes()[10:10+n]...)
	}
	return sgl, data
}

func scatterList(s *Side) (sgl []verbs.SGE, room int) {
	for _, n := range []int{3, 1, 0, 2000, 2790, 100} {
		mr := s.Register(bytes.Repeat([]byte{canary}, n+20), verbs.AccessLocalWrite)
		sgl = append(sgl, verbs.SGE{MR: mr, Offset: 10, Length: n})
		room += n
	}
	return sgl, room
}
