package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

var errNoMPA = errors.New("not an MPA frame")

// phase is the state of one direction of a link.
type phase uint8

const (
	opening phase = iota // before the MPA frame
	probing              // searching for a Send, without a handshake
	flowing              // reading FPDUs
	ignored              // all further bytes are ignored
)

// link is the iWARP layer on a flow: it decodes the handshake, and assembles
// RDMA messages from DDP segments.
type link struct {
	r    *reader
	flow *flow
	dirs [2]direction // by the index of the sender in flow.ends
	// fresh means that the beginning of the flow was seen. A fresh flow begins
	// with an MPA request, or is not iWARP.
	fresh bool
	// client is the index of the client. conn is nil until the connection is
	// found.
	client int
	conn   *connection
	asked  *handshake // the client's handshake, or nil if not seen
	probes bool       // the flow is counted in reader.probes
	listed bool       // the flow is in Report.NotFollowed
}

// direction is the bytes that one end sends.
type direction struct {
	l      *link
	i      int // index of the sender
	phase  phase
	head   []byte // start of the MPA frame
	stream stream

	next   [iwarp.Queues]uint32 // next MSN of each queue, or 0 if unknown
	queued [iwarp.Queues]message
	tagged message
	reads  []readRequest // of this side, unanswered
	rtr    bool          // the next FPDU may be an RTR indication (RFC 6581 §6)

	// blind means that FPDUs are missing and no FPDU was found after them yet.
	// While a direction is blind, the judge gets no events of either side,
	// because the other side's actions may depend on missing ones.
	blind bool
	// partial means that the next tagged segment may be within a message.
	partial bool
}

// message is a DDP message that is being assembled.
type message struct {
	active bool
	first  ddp
	data   []byte
	length int
	cut    bool // data is shorter than length
}

func newLink(r *reader, f *flow, fresh bool) *link {
	l := &link{r: r, flow: f, fresh: fresh}
	for i := range l.dirs {
		d := &l.dirs[i]
		*d = direction{l: l, i: i}
		d.stream.to = d
		f.half[i].to = d
	}
	return l
}

// bytes takes the next bytes of the TCP connection. They are valid during the call.
func (d *direction) bytes(b []byte) {
	switch d.phase {
	case opening:
		d.open(b)
	case probing, flowing:
		d.stream.bytes(b)
	}
}

// missing takes n bytes that the capture lacks.
func (d *direction) missing(n int) {
	switch d.phase {
	case opening:
		d.l.probe()
		d.missing(n)
	case probing, flowing:
		d.stream.missing(n)
	}
}

// closed reports that the sender ended the connection.
func (d *direction) closed() {
	d.emit(&referee.Event{Kind: referee.Close})
}

// from returns the side that sends in this direction.
func (d *direction) from() referee.Side {
	if d.i == d.l.client {
		return referee.Client
	}
	return referee.Server
}

// open collects the MPA frame, or the bytes in its place.
func (d *direction) open(b []byte) {
	d.head = append(d.head, b...)
	key := iwarp.MPAReply
	if d.l.asked == nil {
		key = iwarp.MPARequest
	}
	h, size, err := decodeHandshake(d.head, key)
	if err == nil && size == 0 {
		return // more bytes are needed
	}
	rest := d.head[size:]
	d.head = nil
	switch {
	case err != nil:
		d.l.foreign(err)
	case d.l.asked == nil:
		d.l.client, d.l.asked = d.i, &h
		d.phase = flowing
		d.stream.to = d
	default:
		d.l.connected(&h)
	}
	if len(rest) > 0 {
		d.bytes(rest)
	}
}

// foreign handles a flow that does not begin with a handshake.
func (l *link) foreign(err error) {
	if l.asked != nil || !errors.Is(err, errNoMPA) {
		l.unfollowed(err.Error() + " where the handshake should be")
		l.ignore()
		return
	}
	if l.fresh {
		l.ignore()
		return
	}
	l.probe()
}

// ignore drops the state of the flow and ignores the rest of it.
func (l *link) ignore() {
	for i := range l.dirs {
		d := &l.dirs[i]
		*d = direction{l: l, i: i, phase: ignored}
	}
	l.unprobe()
	l.flow.ignore()
}

// probe starts the search for Sends in a flow whose handshake was not seen.
func (l *link) probe() {
	if l.r.probes >= maxProbes {
		l.ignore()
		return
	}
	l.r.probes++
	l.probes = true
	for i := range l.dirs {
		d := &l.dirs[i]
		if d.phase == opening || d.phase == flowing {
			d.phase, d.blind = probing, true
			d.stream = stream{to: d, limit: maxProbe, searching: true}
		}
	}
}

// end records the results when the flow is over.
func (l *link) end() {
	l.unprobe()
	switch {
	case l.conn != nil:
		l.conn.out.MissingBytes = uint64(l.flow.holes)
		if l.blind() {
			l.conn.giveUp("no Send was found after the last loss")
		}
		l.conn.end()
	case l.listed:
	case l.asked != nil:
		l.unfollowed("the capture has no answer to the MPA request")
	default:
		l.r.report.OtherFlows++
	}
}

// unfollowed records why a connection is not judged.
func (l *link) unfollowed(reason string) {
	l.listed = true
	l.r.report.unfollowed(l.flow.ends[l.client], l.flow.ends[1-l.client], reason)
}

// unprobe stops counting the flow among those that are searched.
func (l *link) unprobe() {
	if l.probes {
		l.r.probes--
		l.probes = false
	}
}

// connected begins a connection whose handshake was seen.
func (l *link) connected(answer *handshake) {
	if answer.rejected {
		l.unfollowed("the server rejected the connection")
		l.ignore()
		return
	}
	if !l.begin() {
		return
	}
	crc := crcOff
	if l.asked.crc || answer.crc {
		crc = crcOn
	}
	for i := range l.dirs {
		d := &l.dirs[i]
		d.phase = flowing
		d.next = [iwarp.Queues]uint32{1, 1, 1}
		// Each side announces whether it wants to receive markers.
		d.stream = stream{to: d, crc: crc, markers: answer.markers}
		if i != l.client {
			d.stream.markers = l.asked.markers
		}
	}
	l.dirs[l.client].rtr = l.asked.peerToPeer && answer.peerToPeer
	l.conn.connect(l.asked, answer, crc == crcOn)
	if n := l.r.note; n != nil && n.Midway {
		l.conn.gap()
	}
}

// begin adds the connection if there is room, and reports whether there was.
func (l *link) begin() bool {
	l.unprobe()
	if l.r.following >= maxFollowed {
		l.unfollowed(fmt.Sprintf("%d connections are followed already", maxFollowed))
		l.ignore()
		return false
	}
	l.conn = newConnection(l)
	return true
}

// found reports whether there is a connection for a segment. Without a
// handshake, a connection begins at a Send.
func (d *direction) found(h *ddp, payload []byte) bool {
	l := d.l
	if d.phase == flowing && l.conn != nil {
		return true
	}
	if h.queue != iwarp.QueueSend || h.size != iwarp.UntaggedSize || h.mo != 0 || !l.flow.half[1-d.i].known {
		return false
	}
	if l.conn == nil {
		if l.asked == nil {
			l.client = l.whoCalls(d.i, payload)
		}
		if !l.begin() {
			return false
		}
	}
	d.phase = flowing
	d.stream.limit = maxLost
	return true
}

// nfsRDMAPort is the port of NFS over RDMA (RFC 8267 §7).
const nfsRDMAPort = 20049

// whoCalls returns the index of the client of a connection whose handshake was
// not seen. The client is the end that is not at the well-known port, or else
// the end that sends a call that is no callback.
func (l *link) whoCalls(sender int, message []byte) int {
	for i, end := range l.flow.ends {
		if end.Port() == nfsRDMAPort && l.flow.ends[1-i].Port() != nfsRDMAPort {
			return 1 - i
		}
	}
	if served(message) {
		return 1 - sender
	}
	return sender
}

// served reports whether the server sent a Send: it answers a call, or is a
// callback.
func served(message []byte) bool {
	var h rpcrdma2.Header
	var n int
	var err error
	if p, ok := rpcrdma1.DecodePrefix(message); ok && p.Version == rpcrdma2.Version {
		n, err = h.Decode(message)
	} else {
		n, err = h.Header.Decode(message)
	}
	switch {
	case err != nil:
		return false
	case h.Proc == rpcrdma1.Error:
		return true
	case h.Version == rpcrdma2.Version:
		return h.Direction == rpcrdma2.Reply || h.Option != rpcrdma2.OptXmtCont && callsBack(message[n:])
	case h.Proc == rpcrdma1.NoMsg: // a call is in a chunk at position zero, a reply in the reply chunk
		return !slices.ContainsFunc(h.Reads, func(s rpcrdma1.ReadSegment) bool { return s.Position == 0 })
	}
	_, kind, _ := oncrpc.MessageType(message[n:])
	return kind == oncrpc.MsgReply || callsBack(message[n:])
}

// callsBack reports whether an RPC message calls a program with a transient number (RFC
// 5531 §8.4). A client chooses such a number for its callbacks (RFC 8881 §18.36.3).
func callsBack(rpc []byte) bool {
	const first, last, version = 0x40000000, 0x5fffffff, 2
	if len(rpc) < 16 || binary.BigEndian.Uint32(rpc[8:]) != version {
		return false
	}
	program := binary.BigEndian.Uint32(rpc[12:])
	return program >= first && program <= last
}

// lost reports that FPDUs are missing here.
func (d *direction) lost() {
	d.forget()
	d.blind = true
}

// seen ends the state that lost began, because a segment was found.
func (d *direction) seen() {
	if d.blind {
		d.blind = false
		d.l.conn.gap()
	}
}

// blind reports whether FPDUs are missing now.
func (l *link) blind() bool { return l.dirs[0].blind || l.dirs[1].blind }

// whole reports whether nothing of the connection was missing so far.
func (l *link) whole() bool { return l.conn.out.Gaps == 0 && !l.blind() }

// forget drops unfinished messages and the order of those to come.
func (d *direction) forget() {
	d.partial = true
	d.next = [iwarp.Queues]uint32{}
	d.queued = [iwarp.Queues]message{}
	d.tagged = message{}
	d.rtr = false
}

// endless reports that the search for an FPDU exceeded its limit.
func (d *direction) endless(bytes int) {
	l := d.l
	if l.conn != nil {
		l.conn.giveUp(fmt.Sprintf("no Send was found in the %d bytes after a loss", bytes))
		l.ignore()
		return
	}
	*d = direction{l: l, i: d.i, phase: ignored}
	if l.dirs[1-d.i].phase == ignored {
		l.ignore()
	}
}

// badCRC takes the place of segment if the CRC is wrong.
func (d *direction) badCRC(got, want uint32) {
	d.violation("mpa.crc", "RFC 5044 §4.4", fmt.Sprintf("an FPDU has CRC %#08x, computed %#08x", got, want))
	d.unseen()
}

// violation records a violation that only the transport shows.
func (d *direction) violation(rule, section, message string) {
	if c := d.l.conn; c != nil {
		c.violation(referee.Violation{Rule: rule, Section: section, By: d.from(), Frame: d.l.flow.frame, Message: message})
	}
}

// unseen records that the content of a segment is unknown.
func (d *direction) unseen() {
	d.forget()
	if d.l.conn != nil {
		d.l.conn.gap()
	}
}

// begins reports whether the stream may continue after a loss with a ULPDU. u
// holds at least its headers. begins recognises a Send by its DDP header and the
// beginning of an RPC-over-RDMA header. Nothing else is certain enough.
func (d *direction) begins(u []byte, size int) bool {
	if len(u) < iwarp.UntaggedSize+prefixSize || u[0]&0xbf != 1 || u[1]&0xf0 != 0x40 {
		return false
	}
	h, what := decodeDDP(ulpdu{data: u, size: size})
	if what != good || h.size != iwarp.UntaggedSize || h.queue != iwarp.QueueSend || h.mo != 0 || h.msn == 0 {
		return false
	}
	version, kind := binary.BigEndian.Uint32(u[iwarp.UntaggedSize+4:]), binary.BigEndian.Uint32(u[iwarp.UntaggedSize+12:])
	return (version == 1 || version == 2) && kind <= 5
}
