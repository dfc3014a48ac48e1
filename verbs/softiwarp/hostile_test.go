package softiwarp

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// prey is a side under attack with memory around it that must not change.
type prey struct {
	*side
	arena *arena
	peer  *rawPeer
	recv  verbs.MR // a Receive of 64 bytes is posted into it, at preyRecv
	open  verbs.MR // all rights
	read  verbs.MR // remote read only
	none  verbs.MR // no remote rights
	all   []byte   // the memory behind all of them
}

const (
	preyRecv   = 100 // offset and
	preyLength = 64  // length of the Receive
)

func newPrey(a *arena, request mpa.Frame) *prey {
	p := &prey{arena: a}
	p.peer, p.side = a.attach(request)
	p.all = bytes.Repeat([]byte{0xa5}, 8192)
	p.recv = p.region(p.all[1000:2000], verbs.AccessLocalWrite)
	p.open = p.region(p.all[3000:4000], allAccess)
	p.read = p.region(p.all[5000:6000], verbs.AccessRemoteRead)
	p.none = p.region(p.all[7000:8000], verbs.AccessLocalWrite)
	p.side.recv(verbs.RecvWR{ID: 1, SGL: sge(p.recv, preyRecv, preyLength)})
	return p
}

// intact checks that only bytes of the Receive may have changed.
func (p *prey) intact() {
	p.tb.Helper()
	for i, b := range p.all {
		if b != 0xa5 && (i < 1000+preyRecv || i >= 1000+preyRecv+preyLength) {
			p.tb.Fatalf("byte %d was changed", i)
		}
	}
}

// readRequest is the payload of a Read Request for n bytes.
func readRequest(stag uint32, to uint64, n uint32) []byte {
	r := rdmap.Read{SinkSTag: 77, Size: n, SrcSTag: stag, SrcTO: to}
	return r.Append(nil)
}

// offence is something that a peer must not do, and the fault with which its connection is
// terminated.
type offence struct {
	name string
	do   func(p *prey)
	want rdmap.Fault
}

func sendWith(h ddp.Header, n int) func(*prey) {
	return func(p *prey) { p.peer.segment(rdmap.Send, h, make([]byte, n)) }
}

func rawULPDU(b ...byte) func(*prey) {
	return func(p *prey) { p.peer.ulpdu(b) }
}

var framingOffences = []offence{
	{"empty ULPDU", rawULPDU(), rdmap.MPALength},
	{"ULPDU of 1 byte", rawULPDU(0xc1), rdmap.MPALength},
	{"tagged header cut off", rawULPDU(bytes.Repeat([]byte{0xc1}, 13)...), rdmap.MPALength},
	{"untagged header cut off", rawULPDU(bytes.Repeat([]byte{0x41}, 17)...), rdmap.MPALength},
	{"DDP version 0, tagged", rawULPDU(0xc0, 0x40), rdmap.TaggedInvalidVersion},
	{"DDP version 2, untagged", rawULPDU(0x42, 0x43), rdmap.UntaggedInvalidVersion},
	{"RDMAP version 0", rawULPDU(append([]byte{0x41, 0x03}, make([]byte, 16)...)...), rdmap.InvalidRDMAPVersion},
	{"RDMAP version 2", rawULPDU(append([]byte{0x41, 0x83}, make([]byte, 16)...)...), rdmap.InvalidRDMAPVersion},
	{"opcode 8", rawULPDU(append([]byte{0x41, 0x48}, make([]byte, 16)...)...), rdmap.UnexpectedOpcode},
	{"opcode 15, tagged", rawULPDU(append([]byte{0xc1, 0x4f}, make([]byte, 12)...)...), rdmap.UnexpectedOpcode},
	{"untagged Write", func(p *prey) { p.peer.message(rdmap.Write, 1, nil) }, rdmap.UnexpectedOpcode},
	{"tagged Send", func(p *prey) { p.peer.segment(rdmap.Send, ddp.Header{Tagged: true, Last: true}, nil) }, rdmap.UnexpectedOpcode},
	{"queue 3", sendWith(ddp.Header{Last: true, QN: 3, MSN: 1}, 0), rdmap.UntaggedInvalidQN},
	{"queue 2^32-1", sendWith(ddp.Header{Last: true, QN: 1<<32 - 1, MSN: 1}, 0), rdmap.UntaggedInvalidQN},
	{"Send on the queue of Reads", sendWith(ddp.Header{Last: true, QN: 1, MSN: 1}, 0), rdmap.UnexpectedOpcode},
	{"Read Request on the queue of Sends", func(p *prey) {
		p.peer.segment(rdmap.ReadRequest, ddp.Header{Last: true, MSN: 1}, readRequest(0, 0, 0))
	}, rdmap.UnexpectedOpcode},
	{"Read Response to nothing", func(p *prey) {
		p.peer.segment(rdmap.ReadResponse, ddp.Header{Tagged: true, Last: true, STag: p.open.RKey(), TO: p.open.Addr()}, make([]byte, 4))
	}, rdmap.UnexpectedOpcode},
}

var sendOffences = []offence{
	{"MSN 0", sendWith(ddp.Header{Last: true}, 4), rdmap.UntaggedMSNRange},
	{"MSN 2 first", sendWith(ddp.Header{Last: true, MSN: 2}, 4), rdmap.UntaggedMSNRange},
	{"MSN used before", func(p *prey) {
		p.side.recv(verbs.RecvWR{ID: 2})
		p.peer.message(rdmap.Send, 1, []byte("fine"))
		p.peer.message(rdmap.Send, 1, nil)
	}, rdmap.UntaggedMSNRange},
	{"first segment not at 0", sendWith(ddp.Header{MSN: 1, MO: 1}, 4), rdmap.UntaggedInvalidMO},
	{"gap between segments", func(p *prey) {
		sendWith(ddp.Header{MSN: 1}, 4)(p)
		sendWith(ddp.Header{MSN: 1, MO: 5}, 4)(p)
	}, rdmap.UntaggedInvalidMO},
	{"segments overlap", func(p *prey) {
		sendWith(ddp.Header{MSN: 1}, 4)(p)
		sendWith(ddp.Header{MSN: 1, MO: 3}, 4)(p)
	}, rdmap.UntaggedInvalidMO},
	{"offset that wraps", func(p *prey) {
		sendWith(ddp.Header{MSN: 1}, 4)(p)
		sendWith(ddp.Header{MSN: 1, MO: 1<<32 - 1}, 4)(p)
	}, rdmap.UntaggedInvalidMO},
	{"opcode changes within the message", func(p *prey) {
		sendWith(ddp.Header{MSN: 1}, 4)(p)
		p.peer.segment(rdmap.SendSolicited, ddp.Header{Last: true, MSN: 1, MO: 4}, nil)
	}, rdmap.UnexpectedOpcode},
	{"no Receive", func(p *prey) {
		p.peer.message(rdmap.Send, 1, nil)
		p.peer.message(rdmap.Send, 2, nil)
	}, rdmap.UntaggedNoBuffer},
	{"invalidates an unknown STag", func(p *prey) {
		p.peer.segment(rdmap.SendInvalidate, ddp.Header{Last: true, MSN: 1, ULP2: p.open.RKey() ^ 1}, nil)
	}, rdmap.STagNotInvalidatable},
	{"invalidates STag 0", func(p *prey) {
		p.peer.segment(rdmap.SendSolicitedInvalidate, ddp.Header{Last: true, MSN: 1}, nil)
	}, rdmap.STagNotInvalidatable},
	{"invalidates a region", func(p *prey) {
		p.peer.segment(rdmap.SendInvalidate, ddp.Header{Last: true, MSN: 1, ULP2: p.open.RKey()}, nil)
	}, rdmap.STagNotInvalidatable},
}

func writeTo(stag func(*prey) uint32, to func(*prey) uint64, n int) func(*prey) {
	return func(p *prey) {
		p.peer.segment(rdmap.Write, ddp.Header{Tagged: true, Last: true, STag: stag(p), TO: to(p)}, make([]byte, n))
	}
}

func readFrom(stag func(*prey) uint32, to func(*prey) uint64, n uint32) func(*prey) {
	return func(p *prey) { p.peer.message(rdmap.ReadRequest, 1, readRequest(stag(p), to(p), n)) }
}

func openKey(p *prey) uint32 { return p.open.RKey() }

func openAt(off int) func(*prey) uint64 {
	return func(p *prey) uint64 { return p.open.Addr() + uint64(off) }
}

func wrapping(*prey) uint64 { return 1<<64 - 8 }

var taggedOffences = []offence{
	{"Write: unknown STag", writeTo(func(p *prey) uint32 { return p.open.RKey() + 1 }, openAt(0), 8), rdmap.TaggedInvalidSTag},
	{"Write: STag 0", writeTo(func(*prey) uint32 { return 0 }, openAt(0), 8), rdmap.TaggedInvalidSTag},
	{"Write: last byte outside", writeTo(openKey, openAt(993), 8), rdmap.TaggedBaseOrBounds},
	{"Write: first byte outside", writeTo(openKey, openAt(-1), 8), rdmap.TaggedBaseOrBounds},
	{"Write: longer than the region", writeTo(openKey, openAt(0), 1001), rdmap.TaggedBaseOrBounds},
	{"Write: address wraps", writeTo(openKey, wrapping, 9), rdmap.TaggedTOWrap},
	{"Write: no right", writeTo(func(p *prey) uint32 { return p.read.RKey() }, func(p *prey) uint64 { return p.read.Addr() }, 8), rdmap.AccessRights},
	{"Write: another domain", writeTo(func(p *prey) uint32 { return p.arena.sink.RKey() }, func(p *prey) uint64 { return p.arena.sink.Addr() }, 8), rdmap.TaggedNotAssociated},
	{"Write: second segment outside", func(p *prey) {
		h := ddp.Header{Tagged: true, STag: p.read.RKey(), TO: p.read.Addr()}
		p.peer.segment(rdmap.Write, h, nil) // of no bytes: allowed anywhere
		h.STag, h.TO = p.open.RKey(), p.open.Addr()+999
		p.peer.segment(rdmap.Write, h, make([]byte, 2))
	}, rdmap.TaggedBaseOrBounds},
	{"Read: unknown STag", readFrom(func(p *prey) uint32 { return p.open.RKey() + 1 }, openAt(0), 8), rdmap.InvalidSTag},
	{"Read: last byte outside", readFrom(openKey, openAt(993), 8), rdmap.BaseOrBounds},
	{"Read: first byte outside", readFrom(openKey, openAt(-1), 8), rdmap.BaseOrBounds},
	{"Read: 4 GiB", readFrom(openKey, openAt(0), 1<<32-1), rdmap.BaseOrBounds},
	{"Read: address wraps", readFrom(openKey, wrapping, 9), rdmap.TOWrap},
	{"Read: no right", readFrom(func(p *prey) uint32 { return p.none.RKey() }, func(p *prey) uint64 { return p.none.Addr() }, 8), rdmap.AccessRights},
	{"Read: another domain", readFrom(func(p *prey) uint32 { return p.arena.sink.RKey() }, func(p *prey) uint64 { return p.arena.sink.Addr() }, 8), rdmap.STagNotAssociated},
	{"Read: MSN 2 first", func(p *prey) { p.peer.message(rdmap.ReadRequest, 2, readRequest(0, 0, 0)) }, rdmap.UntaggedMSNRange},
	{"Read: not at 0", func(p *prey) {
		p.peer.segment(rdmap.ReadRequest, ddp.Header{Last: true, QN: 1, MSN: 1, MO: 4}, readRequest(0, 0, 0))
	}, rdmap.UntaggedInvalidMO},
	{"Read: payload too short", func(p *prey) { p.peer.message(rdmap.ReadRequest, 1, readRequest(0, 0, 0)[:27]) }, rdmap.OperationUnspecified},
	{"Read: payload too long", func(p *prey) { p.peer.message(rdmap.ReadRequest, 1, append(readRequest(0, 0, 0), 0)) }, rdmap.UntaggedTooLong},
	{"Read: not the last segment", func(p *prey) {
		p.peer.segment(rdmap.ReadRequest, ddp.Header{QN: 1, MSN: 1}, readRequest(0, 0, 0))
	}, rdmap.OperationUnspecified},
}

// TestOffences: every offence ends the offender's connection with the right Terminate,
// changes no memory, and does not affect others.
func TestOffences(t *testing.T) {
	for _, config := range []Config{{}, {CRC: true}} {
		a := newArena(t, config)
		for _, group := range [][]offence{framingOffences, sendOffences, taggedOffences} {
			for _, o := range group {
				t.Run(o.name, func(t *testing.T) { o.commit(t, a) })
				a.calm()
			}
		}
	}
}

func (o *offence) commit(t *testing.T, a *arena) {
	local := *a
	local.TB = t
	p := newPrey(&local, rawRequest())
	o.do(p)
	p.peer.terminated(o.want)
	term := terminateOf(t, p.ended())
	if term.Remote || term.Layer != o.want.Layer || term.Type != o.want.Type || term.Code != o.want.Code || term.Reason != o.want.String() {
		t.Errorf("ended with %+v", term)
	}
	for _, wc := range p.complete(1) {
		if wc.ID == 1 && wc.Status == verbs.WCSuccess && o.want != rdmap.UntaggedMSNRange && o.want != rdmap.UntaggedNoBuffer {
			t.Errorf("the Receive completed as %+v", wc)
		}
	}
	p.intact()
}

// TestTerminateHeaders: a Terminate includes the headers of the refused segment.
func TestTerminateHeaders(t *testing.T) {
	a := newArena(t, Config{})
	p := newPrey(a, rawRequest())
	readFrom(openKey, openAt(993), 8)(p)
	term := p.peer.terminated(rdmap.BaseOrBounds)
	want := rdmap.Read{SinkSTag: 77, Size: 8, SrcSTag: p.open.RKey(), SrcTO: p.open.Addr() + 993}
	if !term.HasRead || term.Read != want || term.DDP.QN != ddp.QueueReadRequest || term.DDP.MSN != 1 || term.SegmentLength != 46 {
		t.Errorf("Terminate of a Read: %+v", term)
	}
	p = newPrey(a, rawRequest())
	writeTo(openKey, openAt(993), 8)(p)
	term = p.peer.terminated(rdmap.TaggedBaseOrBounds)
	if !term.HasDDP || term.DDP.STag != p.open.RKey() || term.DDP.TO != p.open.Addr()+993 || term.SegmentLength != 22 || term.HasRead {
		t.Errorf("Terminate of a Write: %+v", term)
	}
}

// TestBadCRC: a damaged FPDU is not placed.
func TestBadCRC(t *testing.T) {
	a := newArena(t, Config{})
	request := rawRequest()
	request.CRC = true
	p := newPrey(a, request)
	h := ddp.Header{Tagged: true, Last: true, ULP: rdmap.Control(rdmap.Write), STag: p.open.RKey(), TO: p.open.Addr()}
	b := mpa.AppendFPDU(nil, append(h.Append(nil), make([]byte, 100)...), true)
	b[50] ^= 1
	p.peer.write(b)
	p.peer.terminated(rdmap.MPACRC)
	p.ended()
	p.intact()
	a.calm()
}

// TestTooLong: the part of a message that fits may be placed, the rest is not, and the
// Receive's status reports it.
func TestTooLong(t *testing.T) {
	a := newArena(t, Config{})
	for _, segments := range [][]int{{65}, {60, 5}, {64, 1}, {1, 1 << 15}} {
		p := newPrey(a, rawRequest())
		p.side.recv(verbs.RecvWR{ID: 2, SGL: sge(p.recv, 900, 100)})
		off := 0
		for i, n := range segments {
			p.peer.segment(rdmap.Send, ddp.Header{Last: i == len(segments)-1, MSN: 1, MO: uint32(off)}, make([]byte, n))
			off += n
		}
		p.peer.terminated(rdmap.UntaggedTooLong)
		wcs := p.complete(2)
		if wcs[0].ID != 1 || wcs[0].Status != verbs.WCLocLenErr || wcs[1].ID != 2 || wcs[1].Status != verbs.WCWRFlushErr {
			t.Errorf("segments %v: completed as %+v", segments, wcs)
		}
		p.intact()
	}
}

// TestForeignWindow: a window that belongs to another connection of the same
// domain can be neither used nor invalidated.
func TestForeignWindow(t *testing.T) {
	for _, attack := range []struct {
		do   func(peer *rawPeer, w verbs.MW)
		want rdmap.Fault
	}{
		{func(peer *rawPeer, w verbs.MW) {
			peer.segment(rdmap.SendInvalidate, ddp.Header{Last: true, MSN: 1, ULP2: w.RKey()}, nil)
		}, rdmap.STagNotInvalidatable},
		{func(peer *rawPeer, w verbs.MW) {
			peer.segment(rdmap.Write, ddp.Header{Tagged: true, Last: true, STag: w.RKey(), TO: w.Addr()}, []byte{1})
		}, rdmap.TaggedNotAssociated},
		{func(peer *rawPeer, w verbs.MW) {
			peer.message(rdmap.ReadRequest, 1, readRequest(w.RKey(), w.Addr(), 1))
		}, rdmap.STagNotAssociated},
	} {
		a := newArena(t, Config{})
		w := must(a.far.pd.AllocMW())(t)
		buf := make([]byte, 64)
		mr := a.far.region(buf, allAccess)
		a.far.send(verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: verbs.BindInfo{
			MW: w, MR: mr, Length: 64, Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
		}})
		a.far.succeed(1)

		peer, s := a.attachIn(a.far.pd, rawRequest())
		s.recv(verbs.RecvWR{})
		attack.do(peer, w)
		peer.terminated(attack.want)
		// The owner of the window still may.
		a.near.send(verbs.SendWR{Op: verbs.OpRDMAWrite, RemoteAddr: w.Addr(), RKey: w.RKey(), SGL: nil})
		a.calm()
		if !bytes.Equal(buf, make([]byte, 64)) {
			t.Error("memory was changed")
		}
		t.Cleanup(func() { w.Close() })
	}
}

// attachIn is attach with a queue pair in a given protection domain.
func (a *arena) attachIn(pd verbs.PD, request mpa.Frame) (*rawPeer, *side) {
	a.Helper()
	peer := a.dial()
	peer.frame(request)
	s := &side{tb: a.TB, p: a.p, pd: pd}
	s.id = must(a.l.GetRequest(a.Context()))(a.TB)
	s.cq = must(a.p.Device().CreateCQ(16))(a.TB)
	s.qp = must(s.id.CreateQP(pd, verbs.QPAttr{SendCQ: s.cq, RecvCQ: s.cq, MaxSendWR: 4, MaxRecvWR: 4}))(a.TB)
	a.Cleanup(func() {
		s.id.Close()
		s.cq.Close()
	})
	if err := s.id.Accept(a.Context(), testParam); err != nil {
		a.Fatal(err)
	}
	must(readFrame(peer.conn, mpa.Reply))(a.TB)
	return peer, s
}

// TestGarbage: bytes that are no FPDUs at all.
func TestGarbage(t *testing.T) {
	a := newArena(t, Config{})
	for seed := range 20 {
		p := newPrey(a, rawRequest())
		b := randomBytes(200_000 + seed)
		binary.BigEndian.PutUint16(b, uint16(seed*seed))
		_, _ = p.peer.conn.Write(b) // may be cut off
		p.ended()
		p.intact()
	}
	a.calm()
}
