package capture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

var errNoMPA = errors.New("not an MPA frame")

// phase is how far a direction of a link is.
type phase uint8

const (
	opening phase = iota // before the MPA frame
	probing              // looking for a Send, without a handshake
	flowing              // FPDUs
	ignored              // nothing is looked at any more
)

// link is iWARP on a flow: the handshake, and DDP segments that become RDMA
// messages.
type link struct {
	r    *reader
	flow *flow
	dirs [2]direction // by the index of the sender in flow.ends
	// fresh says that the flow's beginning was seen: it has an MPA request
	// first, or is not iWARP.
	fresh bool
	// client is the index of the client; conn is nil until it is known.
	client int
	conn   *connection
	asked  *handshake // the client's, nil while it is not seen
	probes bool       // counted in reader.probes
	listed bool       // in the report, among those that are not followed
}

// direction is what one end sends.
type direction struct {
	l      *link
	i      int // index of the sender
	phase  phase
	head   []byte // of the MPA frame
	stream stream

	next   [queues]uint32 // MSN that is to come, 0 if not known
	queued [queues]message
	tagged message
	reads  []readRequest // of this side, without their response
	rtr    bool          // the next FPDU may be an RTR indication (RFC 6581 §6)

	// blind says that FPDUs are missing and none was found after them yet.
	// Until then the judge hears nothing of either side: what the other one
	// does may depend on what is missing.
	blind bool
	// partial says that the next tagged segment may be within a message.
	partial bool
}

// message is a DDP message that is being put together.
type message struct {
	active bool
	first  ddp
	data   []byte
	length int
	cut    bool // data ends before length
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

// bytes implements receiver.
func (d *direction) bytes(b []byte) {
	switch d.phase {
	case opening:
		d.open(b)
	case probing, flowing:
		d.stream.bytes(b)
	}
}

// missing implements receiver.
func (d *direction) missing(n int) {
	switch d.phase {
	case opening:
		d.l.probe()
		d.missing(n)
	case probing, flowing:
		d.stream.missing(n)
	}
}

// closed implements receiver.
func (d *direction) closed() {
	d.emit(&referee.Event{Kind: referee.Close})
}

// from is the side that sends.
func (d *direction) from() referee.Side {
	if d.i == d.l.client {
		return referee.Client
	}
	return referee.Server
}

// open collects the MPA frame, or what is there in its place.
func (d *direction) open(b []byte) {
	d.head = append(d.head, b...)
	key := mpaReply
	if d.l.asked == nil {
		key = mpaRequest
	}
	h, size, err := decodeHandshake(d.head, key)
	if err == nil && size == 0 {
		return // more is to come
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

// foreign decides on a flow that does not begin with a handshake.
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

// ignore forgets everything of the flow.
func (l *link) ignore() {
	for i := range l.dirs {
		d := &l.dirs[i]
		*d = direction{l: l, i: i, phase: ignored}
	}
	l.unprobe()
	l.flow.deaf = true
}

// probe looks for Sends in a flow whose handshake is not there.
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

// end takes the results when the flow is over.
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

// unfollowed says why a connection is not judged.
func (l *link) unfollowed(reason string) {
	l.listed = true
	l.r.report.unfollowed(l.flow.ends[l.client], l.flow.ends[1-l.client], reason)
}

// unprobe says that the flow is not one of unknown kind any more.
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
		d.next = [queues]uint32{1, 1, 1}
		// Each side says which markers it wants to receive.
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

// begin makes the connection, if there is room.
func (l *link) begin() bool {
	l.unprobe()
	if l.r.following >= maxFollowed {
		l.unfollowed(fmt.Sprintf("%d connections are followed already", maxFollowed))
		l.ignore()
		return false
	}
	l.conn = newConnection(l.r, l.flow.ends[l.client], l.flow.ends[1-l.client], "iwarp")
	l.conn.begins(l.flow)
	return true
}

// found makes sure that there is a connection for a segment, and says whether
// there is. Without a handshake it begins at a Send.
func (d *direction) found(h *ddp, payload []byte) bool {
	l := d.l
	if d.phase == flowing && l.conn != nil {
		return true
	}
	if h.queue != queueSend || h.size != untaggedSize || h.mo != 0 || !l.flow.half[1-d.i].known {
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

// whoCalls is the client of a connection whose handshake was not seen: the
// end that is not at the well-known port, or the one that sends a call.
func (l *link) whoCalls(sender int, message []byte) int {
	for i, end := range l.flow.ends {
		if end.Port() == nfsRDMAPort && l.flow.ends[1-i].Port() != nfsRDMAPort {
			return 1 - i
		}
	}
	if replies(message) {
		return 1 - sender
	}
	return sender
}

// replies says whether a Send has an RPC reply behind its header.
func replies(message []byte) bool {
	var h rpcrdma2.Header
	var n int
	var err error
	if p, ok := rpcrdma1.DecodePrefix(message); ok && p.Version == rpcrdma2.Version {
		n, err = h.Decode(message)
	} else {
		n, err = h.Header.Decode(message)
	}
	if err != nil {
		return false
	}
	_, kind, ok := oncrpc.MessageType(message[n:])
	return ok && kind == oncrpc.MsgReply
}

// lost implements segments.
func (d *direction) lost() {
	d.forget()
	d.blind = true
}

// seen ends what lost began: a segment was found.
func (d *direction) seen() {
	if d.blind {
		d.blind = false
		d.l.conn.gap()
	}
}

// blind says whether something is missing now.
func (l *link) blind() bool { return l.dirs[0].blind || l.dirs[1].blind }

// whole says whether nothing of the connection was missing so far.
func (l *link) whole() bool { return l.conn.out.Gaps == 0 && !l.blind() }

// forget drops what is not whole.
func (d *direction) forget() {
	d.partial = true
	d.next = [queues]uint32{}
	d.queued = [queues]message{}
	d.tagged = message{}
	d.rtr = false
}

// endless implements segments.
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

// badCRC implements segments.
func (d *direction) badCRC(got, want uint32) {
	d.violation("mpa.crc", "RFC 5044 §4.4", fmt.Sprintf("an FPDU has CRC %#08x, computed %#08x", got, want))
	d.unseen()
}

// violation reports what only the transport shows.
func (d *direction) violation(rule, section, message string) {
	if c := d.l.conn; c != nil {
		c.violation(referee.Violation{Rule: rule, Section: section, By: d.from(), Frame: d.l.flow.frame, Message: message})
	}
}

// unseen notes that the content of a segment is not known.
func (d *direction) unseen() {
	d.forget()
	if d.l.conn != nil {
		d.l.conn.gap()
	}
}

// begins implements segments. A Send is found by its header and the beginning
// of an RPC-over-RDMA header. Nothing else is sure enough.
func (d *direction) begins(u []byte, size int) bool {
	if len(u) < untaggedSize+prefixSize || u[0]&0xbf != 1 || u[1]&0xf0 != 0x40 {
		return false
	}
	h, what := decodeDDP(ulpdu{data: u, size: size})
	if what != good || h.size != untaggedSize || h.queue != queueSend || h.mo != 0 || h.msn == 0 {
		return false
	}
	version, kind := binary.BigEndian.Uint32(u[untaggedSize+4:]), binary.BigEndian.Uint32(u[untaggedSize+12:])
	return (version == 1 || version == 2) && kind <= 5
}
