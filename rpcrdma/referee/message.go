package referee

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/xdrin"
)

// Procedures of version 1 (RFC 5666 §4.3). Version 2 shares MSG, NOMSG and ERROR.
const (
	procMsg uint32 = iota
	procNomsg
	procMsgp
	procDone
	procError
)

// Error codes of version 1. Version 2 shares ERR_VERS.
const (
	errVers  uint32 = 1
	errChunk uint32 = 2
)

const (
	prefixSize = 16
	maxHeader  = 64 << 10 // bytes of a header that are decoded at most
)

// segment is memory that its owner offers to its peer (RFC 8166 §3.4.3).
type segment struct {
	stag   uint32
	length uint32
	offset uint64
}

type readSegment struct {
	position uint32
	segment
}

// message is the decoded header of a message of version 1 or 2.
type message struct {
	from                      Side
	xid, vers, credit, proc   uint32
	reads                     []readSegment
	writes                    [][]segment
	reply                     []segment
	hasReply                  bool // a reply chunk is present, perhaps without segments
	align                     uint32
	errCode, versLow, versTop uint32
	header                    int    // bytes before payload
	payload                   []byte // the RPC message after the header, or its known part
	length                    int    // bytes of the whole Send
	whole                     bool   // payload is complete
	agrees                    bool   // it is the answer that chose the version
	invalidates               bool
	stag                      uint32 // the invalidated STag
	windows                   []*window
	body                      *assembly // the RPC message, if RDMA Read transfers it
}

// kept returns a copy of m without the memory that belongs to the caller.
func (m *message) kept() *message {
	c := *m
	c.payload = nil
	return &c
}

// positionZero reports whether the RPC message is in a read chunk. The order of
// the chunks does not matter.
func (m *message) positionZero() bool {
	return slices.ContainsFunc(m.reads, func(s readSegment) bool { return s.position == 0 })
}

// longLength returns the length of the RPC message in a position-zero chunk, in bytes.
func (m *message) longLength() (n uint64) {
	for _, s := range m.reads {
		if s.position == 0 {
			n += uint64(s.length)
		}
	}
	return n
}

// send judges a message.
func (r *Referee) send(e *Event) {
	r.sum.sent(e)
	if len(e.Data) < prefixSize {
		if e.Length <= len(e.Data) {
			r.report("header.short", e.From, "the message has %d bytes", e.Length)
		} else {
			r.Gap()
		}
		return
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(e.Data[at:]) }
	m := &message{
		from: e.From, xid: word(0), vers: word(4), credit: word(8), proc: word(12),
		length: e.Length, whole: len(e.Data) >= e.Length, invalidates: e.Kind == SendInvalidate, stag: e.STag,
	}
	r.size(m)
	spoken := r.negotiate(m, m.proc == procError || m.vers == 2 && xmtErred(e.Data))
	if m.vers != 2 || !spoken { // XMTERR can name any message that comes within a group
		r.v2.side(m.from).recent.add(sent2{xid: m.xid, any: true})
	}
	if !spoken { // its receiver may answer it as a bad call
		r.malformed(m, faultVersion)
		if c := r.dirs[m.from].calls[m.xid]; c != nil {
			c.doubtful = true
		}
		return
	}
	switch m.vers {
	case 1:
		r.sum.version(1)
		r.message1(e, m)
	case 2:
		r.sum.version(2)
		r.message2(e, m)
	default:
		if m.proc == procError { // an error has the same place in all versions (RFC 5666 §4.1)
			r.message1(e, m)
			return
		}
		r.malformed(m, faultVersion)
	}
}

// size judges the size of a message against the threshold.
func (r *Referee) size(m *message) {
	limit := 0
	switch m.vers {
	case 1:
		limit = r.threshold1(m.from)
	case 2:
		limit = r.threshold2(m.from)
	}
	if limit > 0 && m.length > limit {
		r.report("size.threshold", m.from, "a Send of %d bytes where the threshold is %d", m.length, limit)
	}
}

// message1 decodes the rest of a version 1 header and judges the message.
func (r *Referee) message1(e *Event, m *message) {
	if err := m.decode1(e.Data); err != nil {
		switch {
		case errors.Is(err, xdrin.ErrShort) && len(e.Data) > maxHeader:
			r.giveUp("a header of the %v has more than %d bytes", m.from, maxHeader)
			return
		case errors.Is(err, xdrin.ErrShort) && !m.whole:
			r.Gap()
			return
		}
		r.report("header.malformed", m.from, "XID %#x, procedure %d: %v", m.xid, m.proc, err)
		r.malformed(m, faultHeader)
		return
	}
	r.form(m)
	switch m.proc {
	case procMsg, procMsgp, procNomsg:
		r.rpcMessage(m)
	case procDone:
		r.noReply(m, "DONE")
		r.done(m)
	case procError:
		r.noReply(m, "an error")
		r.errored(m)
	}
}

// decode1 decodes what follows the fixed prefix of the header (RFC 5666 §4.3).
func (m *message) decode1(b []byte) error {
	header := prefixSize
	take := func(fields ...xdr.XdrType) error {
		for _, f := range fields {
			n, err := xdrin.Decode(b[header:min(len(b), maxHeader)], f)
			if err != nil {
				return err
			}
			header += n
		}
		return nil
	}
	var align, threshold, code uint32
	var lists goxdr.Rpc_rdma_header
	var versions goxdr.Rpcrdma2_err_vers
	var err error
	switch m.proc {
	case procMsg, procNomsg:
		err = take(&lists)
	case procMsgp:
		err = take(goxdr.XDR_Uint32(&align), goxdr.XDR_Uint32(&threshold), &lists)
	case procDone:
	case procError:
		err = take(goxdr.XDR_Uint32(&code))
		switch {
		case err != nil || code == errChunk:
		case code == errVers:
			err = take(&versions)
		default:
			err = fmt.Errorf("rdma_err has the unknown value %d", code)
		}
	default:
		err = fmt.Errorf("rdma_proc has the unknown value %d", m.proc)
	}
	if err != nil {
		return err
	}
	m.header, m.payload = header, b[header:]
	m.align, m.errCode, m.versLow, m.versTop = align, code, versions.Rdma_vers_low, versions.Rdma_vers_high
	m.lists(lists.Rdma_reads, lists.Rdma_writes, lists.Rdma_reply)
	return nil
}

// lists takes over the chunk lists of a header.
func (m *message) lists(reads *goxdr.Rpcrdma2_read_list, writes *goxdr.Rpcrdma2_write_list, reply *goxdr.Rpcrdma2_write_chunk) {
	for l := reads; l != nil; l = l.Rdma_next {
		m.reads = append(m.reads, readSegment{l.Rdma_entry.Rdma_position, decodedSegment(l.Rdma_entry.Rdma_target)})
	}
	for l := writes; l != nil; l = l.Rdma_next {
		m.writes = append(m.writes, decodedSegments(l.Rdma_entry.Rdma_target))
	}
	if reply != nil {
		m.hasReply, m.reply = true, decodedSegments(reply.Rdma_target)
	}
}

func decodedSegment(s goxdr.Rpcrdma2_segment) segment {
	return segment{s.Rdma_handle, s.Rdma_length, s.Rdma_offset}
}

func decodedSegments(list []goxdr.Rpcrdma2_segment) []segment {
	out := make([]segment, len(list))
	for i, s := range list {
		out[i] = decodedSegment(s)
	}
	return out
}

// form judges the fields of a header on their own.
func (r *Referee) form(m *message) {
	behind := m.length - m.header
	switch m.proc {
	case procMsg, procMsgp:
		if behind < 4 {
			r.report("header.empty", m.from, "XID %#x: no RPC message behind the header", m.xid)
		}
		if m.proc == procMsgp && (m.align == 0 || m.align%4 != 0) {
			r.report("msgp.align", m.from, "XID %#x: rdma_align is %d", m.xid, m.align)
		}
	case procNomsg, procDone, procError:
		if behind > 0 {
			r.report("header.trailing", m.from, "XID %#x, procedure %d: %d bytes follow the header", m.xid, m.proc, behind)
		}
	}
	if m.proc == procError && m.errCode == errVers && m.versLow > m.versTop {
		r.report("header.error-range", m.from, "versions %d to %d", m.versLow, m.versTop)
	}
}
