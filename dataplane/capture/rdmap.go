package capture

import (
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// segment takes the next ULPDU. It returns false if it can't be one.
func (d *direction) segment(u ulpdu) bool {
	h, what := decodeDDP(u)
	switch what {
	case bad:
		return d.nonsense(u)
	case unknown:
		d.unseen()
		return true
	}
	payload := u.data[h.size:]
	if !d.found(&h, payload) {
		return true
	}
	d.seen()
	size := u.size - h.size
	if d.isRTR(&h, payload, size) {
		return true
	}
	if h.size == iwarp.TaggedSize {
		d.takeTagged(&h, payload, size)
	} else {
		d.takeUntagged(&h, payload, size)
	}
	return true
}

// nonsense handles an FPDU without a DDP segment. If nothing was lost before,
// the connection is given up. Otherwise nonsense returns false and the search
// continues.
func (d *direction) nonsense(u ulpdu) bool {
	c := d.l.conn
	if c == nil || !d.l.whole() {
		return false
	}
	d.violation("ddp.header", "RFC 5041 §4.1", fmt.Sprintf("an FPDU of %d bytes has no DDP header with an RDMAP opcode: % x", u.size, u.data[:min(len(u.data), iwarp.UntaggedSize)]))
	c.giveUp("an FPDU has no DDP header")
	d.l.ignore()
	return true
}

// isRTR reports whether a segment is the RTR indication. The client sends it
// first if both sides agreed on it. It is an operation without data and is not
// meant for the upper layer (RFC 6581 §6).
func (d *direction) isRTR(h *ddp, payload []byte, size int) bool {
	if !d.rtr {
		return false
	}
	d.rtr = false
	switch {
	case h.op == iwarp.OpReadRequest && len(payload) == iwarp.ReadRequestSize:
		r := readRequest{ReadRequest: iwarp.DecodeReadRequest(payload)}
		if r.Size > 0 {
			return false
		}
		r.rtr = true
		d.reads = append(d.reads, r)
	case h.op == iwarp.OpReadRequest || size > 0:
		return false
	}
	if h.size == iwarp.UntaggedSize {
		d.next[h.queue] = h.msn + 1
	}
	return true
}

// order reports a segment in the wrong order, unless bytes were missing.
func (d *direction) order(text string) {
	if d.l.whole() {
		d.violation("ddp.order", "RFC 5041 §5.3", text)
	}
	d.unseen()
}

// takeTagged handles a segment of an RDMA Write or Read Response.
func (d *direction) takeTagged(h *ddp, payload []byte, size int) {
	m := &d.tagged
	if d.partial {
		if h.last {
			d.partial = false
			d.l.conn.gap()
		}
		return
	}
	if m.active && (m.first.op != h.op || m.first.stag != h.stag || m.first.offset+uint64(m.length) != h.offset) {
		d.order(fmt.Sprintf("a segment for STag %#x, offset %#x follows one of an unfinished message for STag %#x, whose next offset is %#x",
			h.stag, h.offset, m.first.stag, m.first.offset+uint64(m.length)))
		return
	}
	m.add(h, payload, size)
	if !h.last {
		return
	}
	if h.op == iwarp.OpWrite {
		d.emit(&referee.Event{Kind: referee.Write, STag: m.first.stag, Offset: m.first.offset, Length: m.length, Data: m.data})
	} else {
		d.response(m)
	}
	m.clear()
}

// response matches a Read Response with the oldest RDMA Read of the other side.
func (d *direction) response(m *message) {
	reader := &d.l.dirs[1-d.i]
	if len(reader.reads) == 0 || !reader.reads[0].answeredBy(m) {
		if d.l.whole() {
			d.violation("rdmap.read_response", "RFC 5040 §5.2", fmt.Sprintf(
				"a Read Response of %d bytes for STag %#x, offset %#x does not answer the oldest RDMA Read", m.length, m.first.stag, m.first.offset))
		}
		if d.l.whole() || !reader.skipTo(m) {
			return
		}
	}
	if size := reader.reads[0].Size; uint64(size) != uint64(m.length) {
		d.violation("rdmap.read_response", "RFC 5040 §5.2", fmt.Sprintf("a Read Response has %d bytes, %d were asked for", m.length, size))
	}
	rtr := reader.reads[0].rtr
	reader.reads = reader.reads[1:]
	if rtr {
		return
	}
	reader.emit(&referee.Event{Kind: referee.ReadDone, Length: m.length, Data: m.data})
}

// readRequest is an unanswered Read Request.
type readRequest struct {
	iwarp.ReadRequest
	rtr bool // an RTR indication
}

// answeredBy reports whether a Read Response is for the memory that the RDMA
// Read fills.
func (r *readRequest) answeredBy(m *message) bool {
	return r.SinkTag == m.first.stag && r.Sink == m.first.offset
}

// skipTo drops the RDMA Reads before the one that a Read Response answers,
// because their own responses were lost. It reports whether there is such an
// RDMA Read.
func (d *direction) skipTo(m *message) bool {
	i := slices.IndexFunc(d.reads, func(r readRequest) bool { return r.answeredBy(m) })
	if i >= 0 {
		d.reads = d.reads[i:]
	}
	return i >= 0
}

// takeUntagged handles a segment of a Send, Read Request or Terminate.
func (d *direction) takeUntagged(h *ddp, payload []byte, size int) {
	m := &d.queued[h.queue]
	switch next := d.next[h.queue]; {
	case m.active && (m.first.msn != h.msn || uint64(m.length) != uint64(h.mo)):
		d.order(fmt.Sprintf("message %d of queue %d goes on at offset %d, want message %d, offset %d", h.msn, h.queue, h.mo, m.first.msn, m.length))
	case !m.active && next != 0 && (next != h.msn || h.mo != 0):
		d.order(fmt.Sprintf("message %d of queue %d begins at offset %d, want message %d, offset 0", h.msn, h.queue, h.mo, next))
	}
	if !m.active && h.mo != 0 { // the start of the message was lost
		if h.last {
			d.next[h.queue] = h.msn + 1
			d.l.conn.gap()
		}
		return
	}
	if h.queue == iwarp.QueueSend && h.mo == 0 {
		d.partial = false // a sender finishes its RDMA Writes before a Send
	}
	m.add(h, payload, size)
	if !h.last {
		return
	}
	d.next[h.queue] = h.msn + 1
	d.untagged(m)
	m.clear()
}

// untagged handles a complete untagged message.
func (d *direction) untagged(m *message) {
	switch m.first.op {
	case iwarp.OpSend, iwarp.OpSendSE:
		d.emit(&referee.Event{Kind: referee.Send, Length: m.length, Data: m.data})
	case iwarp.OpSendInv, iwarp.OpSendSEInv:
		d.emit(&referee.Event{Kind: referee.SendInvalidate, STag: m.first.stag, Length: m.length, Data: m.data})
	case iwarp.OpReadRequest:
		d.readRequest(m)
	case iwarp.OpTerminate:
		e := &referee.Event{Kind: referee.Terminate}
		if len(m.data) >= terminateSize {
			e.Layer, e.Type, e.Code = decodeTerminate(m.data)
		}
		d.emit(e)
	}
}

func (d *direction) readRequest(m *message) {
	if len(m.data) < iwarp.ReadRequestSize {
		if m.length < iwarp.ReadRequestSize {
			d.violation("rdmap.read_request", "RFC 5040 §4.4", fmt.Sprintf("a Read Request has %d bytes, want %d", m.length, iwarp.ReadRequestSize))
		}
		d.unseen()
		return
	}
	r := readRequest{ReadRequest: iwarp.DecodeReadRequest(m.data)}
	if len(d.reads) == maxReads {
		d.l.conn.giveUp(fmt.Sprintf("more than %d RDMA Reads are out", maxReads))
		d.l.ignore()
		return
	}
	d.reads = append(d.reads, r)
	d.emit(&referee.Event{Kind: referee.Read, STag: r.SourceTag, Offset: r.Source, Length: int(r.Size)})
}

// emit passes an event of this side to the referee.
func (d *direction) emit(e *referee.Event) {
	if d.l.conn == nil || d.l.blind() {
		return
	}
	e.From, e.Frame = d.from(), d.l.flow.frame
	d.l.conn.observe(e)
}

// add appends a segment to a message. It keeps no bytes after missing ones.
func (m *message) add(h *ddp, payload []byte, size int) {
	if !m.active {
		m.active, m.first = true, *h
	}
	m.length += size
	if m.cut {
		return
	}
	n := min(len(payload), maxMessage-len(m.data))
	m.data = append(m.data, payload[:n]...)
	m.cut = n < size
}

// keep is the size in bytes of a buffer that the next message may reuse.
const keep = 64 << 10

func (m *message) clear() {
	data := m.data[:0]
	if cap(data) > keep {
		data = nil
	}
	*m = message{data: data}
}
