package softiwarp

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// wake sends the first FPDU, so that the passive side may send.
func (p *rawPeer) wake() {
	p.segment(rdmap.Write, ddp.Header{Tagged: true, Last: true}, nil)
}

// asked reads a Read Request.
func (p *rawPeer) asked() rdmap.Read {
	p.Helper()
	_, payload := p.expect(rdmap.ReadRequest)
	var r rdmap.Read
	if n := must(r.Decode(payload))(p); n != len(payload) {
		p.Fatalf("Read Request of %d bytes", len(payload))
	}
	return r
}

func (p *rawPeer) answer(r rdmap.Read, off uint64, last bool, data []byte) {
	p.Helper()
	p.segment(rdmap.ReadResponse, ddp.Header{Tagged: true, Last: last, STag: r.SinkSTag, TO: r.SinkTO + off}, data)
}

// TestReadResponses: a response must match its request exactly. Two Reads of 100 bytes are
// outstanding, and the first is to blame.
func TestReadResponses(t *testing.T) {
	data := make([]byte, 100)
	for _, c := range []struct {
		name   string
		answer func(p *rawPeer, first, second rdmap.Read)
		want   rdmap.Fault
		blamed uint64 // the Read that fails with WCBadRespErr; 0: all flushed
	}{
		{"foreign STag", func(p *rawPeer, first, _ rdmap.Read) {
			first.SinkSTag ^= 1
			p.answer(first, 0, true, data)
		}, rdmap.TaggedInvalidSTag, 1},
		{"the second first", func(p *rawPeer, _, second rdmap.Read) { p.answer(second, 0, true, data) }, rdmap.TaggedInvalidSTag, 1},
		{"offset too low", func(p *rawPeer, first, _ rdmap.Read) { p.answer(first, 1<<64-1, true, data) }, rdmap.TaggedBaseOrBounds, 1},
		{"offset too high", func(p *rawPeer, first, _ rdmap.Read) { p.answer(first, 1, true, data) }, rdmap.TaggedBaseOrBounds, 1},
		{"too long", func(p *rawPeer, first, _ rdmap.Read) { p.answer(first, 0, true, make([]byte, 101)) }, rdmap.TaggedBaseOrBounds, 1},
		{"too long in two", func(p *rawPeer, first, _ rdmap.Read) {
			p.answer(first, 0, false, data[:60])
			p.answer(first, 60, true, data[:41])
		}, rdmap.TaggedBaseOrBounds, 1},
		{"too short", func(p *rawPeer, first, _ rdmap.Read) { p.answer(first, 0, true, data[:99]) }, rdmap.TaggedBaseOrBounds, 1},
		{"segment repeated", func(p *rawPeer, first, _ rdmap.Read) {
			p.answer(first, 0, false, data[:50])
			p.answer(first, 0, false, data[:50])
		}, rdmap.TaggedBaseOrBounds, 1},
		{"the second is wrong", func(p *rawPeer, first, second rdmap.Read) {
			p.answer(first, 0, true, data)
			p.answer(second, 0, true, nil)
		}, rdmap.TaggedBaseOrBounds, 2},
		{"one too many", func(p *rawPeer, first, second rdmap.Read) {
			p.answer(first, 0, true, data)
			p.answer(second, 0, true, data)
			p.answer(second, 0, true, data)
		}, rdmap.UnexpectedOpcode, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{})
			peer, s := a.attach(rawRequest())
			peer.wake()
			buf := bytes.Repeat([]byte{0xa5}, 300)
			mr := s.region(buf, verbs.AccessLocalWrite)
			for i := range uint64(2) {
				s.send(verbs.SendWR{ID: i + 1, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge(mr, 100, 100)})
			}
			c.answer(peer, peer.asked(), peer.asked())
			peer.terminated(c.want)
			for _, wc := range s.complete(2) {
				want := verbs.WCWRFlushErr
				switch {
				case wc.ID == c.blamed:
					want = verbs.WCBadRespErr
				case c.blamed == 0 || wc.ID < c.blamed:
					want = verbs.WCSuccess
				}
				if wc.Status != want {
					t.Errorf("Read %d completed with %v, want %v", wc.ID, wc.Status, want)
				}
			}
			for i, b := range buf {
				if b != 0xa5 && (i < 100 || i >= 200) {
					t.Fatalf("byte %d beside the sink was changed", i)
				}
			}
			a.calm()
		})
	}
}

// TestReadSinkIsPrivate: the STag under which data returns gives no access: it is not the
// region's own, and the peer can't write to it.
func TestReadSinkIsPrivate(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	peer.wake()
	mr := s.region(make([]byte, 100), allAccess)
	s.send(verbs.SendWR{ID: 1, Op: verbs.OpRDMARead, SGL: sge(mr, 0, 100)})
	r := peer.asked()
	if r.SinkSTag == mr.RKey() {
		t.Error("the region's own STag was told")
	}
	peer.segment(rdmap.Write, ddp.Header{Tagged: true, Last: true, STag: r.SinkSTag, TO: r.SinkTO}, make([]byte, 1))
	peer.terminated(rdmap.TaggedInvalidSTag)
	s.complete(1)
}

// TestTooManyReads: a peer that reads no answers sends more Read Requests than negotiated.
func TestTooManyReads(t *testing.T) {
	a := newArena(t, Config{})
	request := rawRequest()
	request.EnhancedData.ORD = 4
	peer, s := a.attach(request)
	if ird, _ := s.id.Negotiated(); ird != 4 {
		t.Fatalf("negotiated %d", ird)
	}
	const size = 16 << 20 // more than a socket takes
	mr := s.region(make([]byte, size), verbs.AccessRemoteRead)
	for msn := range uint32(5) {
		peer.message(rdmap.ReadRequest, msn+1, readRequest(mr.RKey(), mr.Addr(), size))
	}
	if term := terminateOf(t, s.ended()); term.Layer != rdmap.LayerDDP || term.Code != rdmap.UntaggedNoBuffer.Code {
		t.Errorf("ended with %v", term)
	}
	a.calm()
	// The Terminate comes on an FPDU boundary, after what was sent before.
	peer.terminated(rdmap.UntaggedNoBuffer)
}

// TestReadsWithinLimit: a peer that sends a Request as soon as an answer is complete never
// exceeds the limit.
func TestReadsWithinLimit(t *testing.T) {
	a := newArena(t, Config{})
	request := rawRequest()
	request.EnhancedData.ORD = 1
	peer, s := a.attach(request)
	mr := s.region(randomBytes(1000), verbs.AccessRemoteRead)
	for msn := range uint32(500) {
		peer.message(rdmap.ReadRequest, msn+1, readRequest(mr.RKey(), mr.Addr(), 1000))
		h, data := peer.expect(rdmap.ReadResponse)
		if h.STag != 77 || h.TO != 0 || !h.Last || !bytes.Equal(data, mr.Bytes()) {
			t.Fatalf("response %d: %+v", msn, h)
		}
	}
	a.calm()
}

// TestZeroLengthRead: nothing is accessed, so any STag is accepted.
func TestZeroLengthRead(t *testing.T) {
	a := newArena(t, Config{})
	peer, _ := a.attach(rawRequest())
	peer.message(rdmap.ReadRequest, 1, readRequest(12345, 678, 0))
	if h, data := peer.expect(rdmap.ReadResponse); h.STag != 77 || !h.Last || len(data) != 0 {
		t.Errorf("response %+v with %d bytes", h, len(data))
	}
}

// TestRevokedWhileReading: a region closed while a peer reads it is revoked at once, even if
// the peer reads slowly, and the peer is terminated.
func TestRevokedWhileReading(t *testing.T) {
	for _, crc := range []bool{false, true} {
		a := newArena(t, Config{CRC: crc})
		peer, s := a.attach(rawRequest())
		const size = 16 << 20 // more than a socket takes
		buf := make([]byte, size)
		mr := must(s.pd.RegMR(buf, verbs.AccessRemoteRead))(t)
		peer.message(rdmap.ReadRequest, 1, readRequest(mr.RKey(), mr.Addr(), size))
		peer.expect(rdmap.ReadResponse)
		verbstest.Must(t, mr.Close())
		copy(buf, bytes.Repeat([]byte{0xff}, size)) // must not be seen by the peer
		for {
			b := must(peer.next())(t)
			var h ddp.Header
			n := must(h.Decode(b))(t)
			if h.ULP == rdmap.Control(rdmap.Terminate) {
				var term rdmap.Term
				must(term.Decode(b[n:]))(t)
				if term.Fault != rdmap.InvalidSTag || term.Read.Size != size || term.DDP.MSN != 1 {
					t.Errorf("terminated with %+v", term)
				}
				break
			}
			if bytes.IndexByte(b[n:], 0xff) >= 0 {
				t.Fatal("memory was sent after its region was closed")
			}
		}
		peer.ended()
		terminateOf(t, s.ended())
		a.calm()
	}
}
