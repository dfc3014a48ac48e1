package softiwarp

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestTerminateReceived: a peer's Terminate is decoded in both bit orders and not answered.
// The request that it is about gets its status, and all others are flushed.
func TestTerminateReceived(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		want          rdmap.Fault
		blamed        uint64 // of two Reads, 1 and 2, and a Send, 3, behind
		status        verbs.WCStatus
	}{
		{"second Read, RFC", "0102e000 002e 4141 00000000 00000001 00000002 00000000 SINK2 0000000000000000 00000064 00000000 0000000000000000",
			rdmap.AccessRights, 2, verbs.WCRemAccessErr},
		{"second Read, Linux", "10020700 001c 4141 00000000 00000001 00000064 00000000 SINK2 0000000000000000 00000064 00000000 0000000000000000",
			rdmap.AccessRights, 2, verbs.WCRemAccessErr},
		{"some Read, no headers", "01000000", rdmap.InvalidSTag, 1, verbs.WCRemAccessErr},
		{"a Read, request cut off", "0100e000 002e 4141 00000000 00000001 00000002 00000000", rdmap.InvalidSTag, 1, verbs.WCRemAccessErr},
		{"the Send, no Receive", "1202c000 0012 4143 00000000 00000000 00000001 00000000", rdmap.UntaggedNoBuffer, 3, verbs.WCRNRRetryExcErr},
		{"the Send, too long, Linux", "21050300 0012 4143 00000000 00000000 00000001 00000000", rdmap.UntaggedTooLong, 3, verbs.WCRemInvReqErr},
		{"the Send, not invalidatable", "0109c000 0012 4144 00000007 00000000 00000001 00000000", rdmap.STagNotInvalidatable, 3, verbs.WCRemAccessErr},
		{"the Write", "1101c000 0010 8140 00abcdef 0000000000001003", rdmap.TaggedBaseOrBounds, 4, verbs.WCRemAccessErr},
		{"a Write never sent", "1101c000 0010 8140 00abcdef 0000000000002000", rdmap.TaggedBaseOrBounds, 0, 0},
		{"a Send never sent", "1202c000 0012 4143 00000000 00000000 00000009 00000000", rdmap.UntaggedNoBuffer, 0, 0},
		{"CRC", "20020000", rdmap.MPACRC, 0, 0},
		{"CRC, Linux", "02020000", rdmap.MPACRC, 0, 0},
		{"nothing at all", "", rdmap.OperationUnspecified, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{})
			peer, s := a.attach(rawRequest())
			peer.wake()
			mr := s.region(make([]byte, 100), verbs.AccessLocalWrite)
			s.recv(verbs.RecvWR{ID: 9})
			s.send(verbs.SendWR{ID: 1, Op: verbs.OpRDMARead, SGL: sge(mr, 0, 100)},
				verbs.SendWR{ID: 2, Op: verbs.OpRDMARead, SGL: sge(mr, 0, 100)},
				verbs.SendWR{ID: 3}, // stays in the queue behind the Reads
				verbs.SendWR{ID: 4, Op: verbs.OpRDMAWrite, SGL: sge(mr, 0, 8), RKey: 0xabcdef, RemoteAddr: 0x1000})
			peer.asked()
			sink := hex.EncodeToString(binaryUint32(peer.asked().SinkSTag))
			peer.expect(rdmap.Send)
			text := strings.ReplaceAll(strings.ReplaceAll(c.payload, "SINK2", sink), " ", "")
			peer.message(rdmap.Terminate, 1, must(hex.DecodeString(text))(t))

			term := terminateOf(t, s.ended())
			if !term.Remote || term.Layer != c.want.Layer || term.Type != c.want.Type || term.Code != c.want.Code {
				t.Errorf("ended with %+v, want %+v", term, c.want)
			}
			for _, wc := range s.complete(5) {
				want := verbs.WCWRFlushErr
				if wc.ID == c.blamed {
					want = c.status
				}
				if wc.Status != want {
					t.Errorf("request %d completed with %v, want %v", wc.ID, wc.Status, want)
				}
			}
			for {
				b, err := peer.next()
				if err != nil {
					break
				}
				if b[1] == rdmap.Control(rdmap.Terminate) {
					t.Error("a Terminate was answered with one")
				}
			}
			a.calm()
		})
	}
}

func binaryUint32(v uint32) []byte {
	return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
}

// TestStreamEnds: each way in which a peer can go away.
func TestStreamEnds(t *testing.T) {
	fpdu := mpa.AppendFPDU(nil, (&ddp.Header{Last: true, ULP: rdmap.Control(rdmap.Send), MSN: 1}).Append(nil), false)
	for _, c := range []struct {
		name string
		end  func(p *rawPeer)
		want error
	}{
		{"closed", func(p *rawPeer) { p.conn.Close() }, verbs.ErrDisconnected},
		{"half closed", func(p *rawPeer) { p.conn.CloseWrite() }, verbs.ErrDisconnected},
		{"within a length field", func(p *rawPeer) { p.write(fpdu[:1]); p.conn.CloseWrite() }, errMidFPDU},
		{"within a header", func(p *rawPeer) { p.write(fpdu[:9]); p.conn.CloseWrite() }, errMidFPDU},
		{"within a CRC", func(p *rawPeer) { p.write(fpdu[:len(fpdu)-1]); p.conn.CloseWrite() }, errMidFPDU},
		{"reset", func(p *rawPeer) { p.conn.SetLinger(0); p.conn.Close() }, syscall.ECONNRESET},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{})
			peer, s := a.attach(rawRequest())
			peer.wake()
			s.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
			mr := s.region(make([]byte, 8), verbs.AccessLocalWrite)
			s.send(verbs.SendWR{ID: 3, Op: verbs.OpRDMARead, SGL: sge(mr, 0, 8)}, verbs.SendWR{ID: 4})
			peer.asked()
			peer.expect(rdmap.Send)
			c.end(peer)
			if err := s.ended(); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			seen := map[uint64]bool{}
			for _, wc := range s.complete(4) {
				if wc.Status != verbs.WCWRFlushErr || seen[wc.ID] {
					t.Errorf("completed as %+v", wc)
				}
				seen[wc.ID] = true
			}
			a.calm()
		})
	}
}

// TestResetWhenIdle: a peer that has all that it asked for may reset the connection, like a
// socket that is closed without lingering. Within an FPDU it may not.
func TestResetWhenIdle(t *testing.T) {
	fpdu := mpa.AppendFPDU(nil, (&ddp.Header{Last: true, ULP: rdmap.Control(rdmap.Send), MSN: 1}).Append(nil), false)
	for name, c := range map[string]struct {
		before []byte
		want   error
	}{
		"idle":           {nil, verbs.ErrDisconnected},
		"within an FPDU": {fpdu[:9], syscall.ECONNRESET}, // of the next
	} {
		t.Run(name, func(t *testing.T) {
			a := newArena(t, Config{})
			peer, s := a.attach(rawRequest())
			peer.wake()
			s.recv(verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
			s.send(verbs.SendWR{ID: 4, Flags: verbs.SendSignaled})
			s.succeed(1)
			peer.expect(rdmap.Send)
			peer.write(append(slices.Clone(fpdu), c.before...)) // by one write, so that one read takes both
			s.succeed(1)
			peer.conn.SetLinger(0)
			peer.conn.Close()
			if err := s.ended(); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			for _, wc := range s.complete(1) {
				if wc.Status != verbs.WCWRFlushErr {
					t.Errorf("completed as %+v", wc)
				}
			}
			a.calm()
		})
	}
}

// TestStalledPeer: a peer that reads nothing can block neither posting nor the end of the
// connection.
func TestStalledPeer(t *testing.T) {
	a := newArena(t, Config{DrainTimeout: time.Millisecond})
	for _, end := range []func(s *side) error{
		func(s *side) error { return s.id.Disconnect() },
		func(s *side) error { s.qp.Fail(); return nil },
		func(s *side) error { return s.qp.Close() },
	} {
		peer, s := a.attach(rawRequest())
		peer.wake()
		mr := s.region(make([]byte, 8<<20), verbs.AccessLocalWrite)
		for range testAttr.MaxSendWR {
			s.send(verbs.SendWR{SGL: sge(mr, 0, 8<<20), Flags: verbs.SendSignaled})
		}
		if _, err := s.qp.PostSend([]verbs.SendWR{{}}); !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("post into a full queue: %v", err)
		}
		verbstest.Must(t, end(s))
		s.ended()
	}
	a.calm()
}

// TestFailTellsPeer: a stream that ends abnormally ends with a Terminate.
func TestFailTellsPeer(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	peer.wake()
	s.send(verbs.SendWR{Flags: verbs.SendSignaled})
	s.succeed(1)
	s.qp.Fail()
	peer.terminated(rdmap.LocalCatastrophic)
	if err := s.ended(); !errors.Is(err, driver.ErrFailed) {
		t.Errorf("ended with %v", err)
	}
}

// TestDisconnectSendsAll: a slow peer gets everything that was posted before
// an orderly end, and then the end, on an FPDU boundary.
func TestDisconnectSendsAll(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	peer.wake()
	const n, size = 8, 4 << 20
	mr := s.region(make([]byte, size), 0)
	for range n {
		s.send(verbs.SendWR{SGL: sge(mr, 0, size)})
	}
	verbstest.Must(t, s.id.Disconnect())
	total := 0
	for total < n*size {
		_, payload := peer.expect(rdmap.Send)
		total += len(payload)
	}
	peer.ended()
	if err := s.ended(); !errors.Is(err, verbs.ErrDisconnected) {
		t.Errorf("ended with %v", err)
	}
}

// TestResetWhileSending: a peer resets the connection, or closes it without reading, while
// much data waits to be sent.
func TestResetWhileSending(t *testing.T) {
	for name, end := range map[string]func(p *rawPeer){
		"reset":               func(p *rawPeer) { p.conn.SetLinger(0); p.conn.Close() },
		"closed without read": func(p *rawPeer) { p.unread(); p.conn.Close() },
	} {
		a := newArena(t, Config{})
		peer, s := a.attach(rawRequest())
		peer.wake()
		mr := s.region(make([]byte, 16<<20), verbs.AccessLocalWrite)
		s.recv(verbs.RecvWR{ID: 9})
		s.send(verbs.SendWR{ID: 1, SGL: sge(mr, 0, 16<<20)}, verbs.SendWR{ID: 2, SGL: sge(mr, 0, 16<<20)})
		peer.next()
		end(peer)
		if err := s.ended(); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%s: ended with %v", name, err)
		}
		for _, wc := range s.complete(3) {
			if wc.Status != verbs.WCWRFlushErr {
				t.Errorf("%s: completed as %+v", name, wc)
			}
		}
		a.calm()
	}
}
