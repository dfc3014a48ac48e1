package pcap

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/verbs"
)

// stream is a connection in the file. Its ends are the peer, which began it, and rdmad.
type stream struct {
	conn      *trace.Conn
	peer, own side
	sinkTag   uint32 // of the last Read Request
	note      string // on the last packet of the handshake
}

// Addresses for connections that have none (RFC 5737).
var (
	madeUpPeer = netip.AddrFrom4([4]byte{192, 0, 2, 1})
	madeUpOwn  = netip.AddrFrom4([4]byte{192, 0, 2, 2})
)

// newStream begins a stream at a time. number is unique among those of a Writer.
func newStream(c *trace.Conn, number uint32, now time.Time, midway bool) *stream {
	peer, own := c.Peer, c.Local
	if !peer.IsValid() || !own.IsValid() || peer.Addr().Is4() != own.Addr().Is4() {
		peer = netip.AddrPortFrom(madeUpPeer, peer.Port())
		own = netip.AddrPortFrom(madeUpOwn, own.Port())
	}
	// A connection with the ports of an older one begins with another sequence number, also in
	// the next section of a file, where numbers begin again (RFC 9293 §3.4.1).
	isn := number*0x01000193 + uint32(now.UnixMicro()/4)
	return &stream{
		conn: c, note: notes[Note{Began: c.Began, Midway: midway}],
		peer: side{addr: peer, mac: [6]byte{0x02, 0, 0, 0, 0, 1}, seq: isn},
		own:  side{addr: own, mac: [6]byte{0x02, 0, 0, 0, 0, 2}, seq: ^isn},
	}
}

// windowScale is TCP's largest window scale (RFC 7323 §2.2), after the maximum segment
// size: all data fits the window.
var windowScale = []byte{2, 4, maxSegment >> 8, maxSegment & 0xff, 1, 3, 3, 14}

// open writes the connection's handshake.
func (s *stream) open(w *Writer) error {
	from, to := &s.peer, &s.own
	asks, answers := s.conn.PeerPrivate, s.conn.OwnPrivate
	if s.conn.Began {
		from, to, asks, answers = to, from, answers, asks
	}
	for _, g := range []segment{
		{from: from, to: to, flags: flagSYN, options: windowScale},
		{from: to, to: from, flags: flagSYN | flagACK, options: windowScale},
		{from: from, to: to, flags: flagACK},
	} {
		if err := w.packet(&g); err != nil {
			return err
		}
	}
	if err := s.mpa(w, from, to, iwarp.MPARequest, asks); err != nil {
		return err
	}
	w.comment = s.note
	return s.mpa(w, to, from, iwarp.MPAReply, answers)
}

func (s *stream) mpa(w *Writer, from, to *side, key string, private []byte) error {
	frame := iwarp.AppendMPA(nil, key, private)
	return w.packet(&segment{from: from, to: to, flags: flagPSH | flagACK, payload: frame, length: len(frame)})
}

// write writes an event.
func (s *stream) write(w *Writer, e *trace.Event) error {
	from, to := &s.own, &s.peer
	if e.In {
		from, to = to, from
	}
	switch e.Op {
	case verbs.OpSend:
		return s.untagged(w, from, to, iwarp.OpSend, 0, e)
	case verbs.OpSendInvalidate:
		return s.untagged(w, from, to, iwarp.OpSendInv, e.RKey, e)
	case verbs.OpRDMAWrite:
		return s.tagged(w, from, to, iwarp.OpWrite, e.RKey, e.Addr, e)
	case verbs.OpRDMARead:
		return s.read(w, e)
	}
	return nil
}

// untagged writes a Send.
func (s *stream) untagged(w *Writer, from, to *side, op byte, invalidate uint32, e *trace.Event) error {
	from.msn[iwarp.QueueSend]++
	return s.segments(w, from, to, e, maxULPDU-iwarp.UntaggedSize, func(dst []byte, off int, last bool) []byte {
		return iwarp.AppendUntagged(dst, op, last, invalidate, iwarp.QueueSend, from.msn[iwarp.QueueSend], uint32(off))
	})
}

// tagged writes an RDMA Write or a Read Response.
func (s *stream) tagged(w *Writer, from, to *side, op byte, stag uint32, addr uint64, e *trace.Event) error {
	return s.segments(w, from, to, e, maxULPDU-iwarp.TaggedSize, func(dst []byte, off int, last bool) []byte {
		return iwarp.AppendTagged(dst, op, last, stag, addr+uint64(off))
	})
}

// read writes a Read Request and its Response. Our memory for the data gets a key that is
// unique to this Read, so that readers can match them.
func (s *stream) read(w *Writer, e *trace.Event) error {
	s.sinkTag++
	s.own.msn[iwarp.QueueReadRequest]++
	w.ulpdu = iwarp.AppendUntagged(w.ulpdu[:0], iwarp.OpReadRequest, true, 0, iwarp.QueueReadRequest, s.own.msn[iwarp.QueueReadRequest], 0)
	w.ulpdu = (&iwarp.ReadRequest{SinkTag: s.sinkTag, Size: uint32(e.Length), SourceTag: e.RKey, Source: e.Addr}).Append(w.ulpdu)
	if err := w.fpdu(&s.own, &s.peer, iwarp.UntaggedSize+iwarp.ReadRequestSize); err != nil {
		return err
	}
	return s.tagged(w, &s.peer, &s.own, iwarp.OpReadResponse, s.sinkTag, 0, e)
}

// segments divides an event's bytes into DDP segments. Known bytes get segments of their
// own, because readers cannot decode a cut FPDU.
func (s *stream) segments(w *Writer, from, to *side, e *trace.Event, most int, header func(dst []byte, off int, last bool) []byte) error {
	for off := 0; ; {
		n := min(most, e.Length-off)
		if known := len(e.Data) - off; known > 0 {
			n = min(n, known)
		}
		last := off+n == e.Length
		w.ulpdu = header(w.ulpdu[:0], off, last)
		size := len(w.ulpdu) + n
		if off < len(e.Data) {
			w.ulpdu = append(w.ulpdu, e.Data[off:off+n]...)
		}
		if err := w.fpdu(from, to, size); err != nil || last {
			return err
		}
		off += n
	}
}
