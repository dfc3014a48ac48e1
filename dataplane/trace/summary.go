package trace

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
)

// Summary returns the message as one line, without time and connection.
func (m *Message) Summary() string {
	var b strings.Builder
	from, to := m.Conn.Local, m.Conn.Peer
	if m.In {
		from, to = to, from
	}
	fmt.Fprintf(&b, "%v > %v: ", from, to)
	switch m.Op {
	case verbs.OpRDMAWrite:
		fmt.Fprintf(&b, "RDMA Write, %d bytes to %#x:%#x", m.Length, m.RKey, m.Addr)
	case verbs.OpRDMARead:
		fmt.Fprintf(&b, "RDMA Read, %d bytes from %#x:%#x", m.Length, m.RKey, m.Addr)
	default:
		m.sendSummary(&b)
	}
	return b.String()
}

func (m *Message) sendSummary(b *strings.Builder) {
	if m.Prefix {
		h := &m.Header
		fmt.Fprintf(b, "%s xid 0x%08x credits %d", m.Procedure(), h.XID, h.Credits)
		if h.Version != rpcrdma1.Version {
			fmt.Fprintf(b, " version %d", h.Version)
		}
	} else {
		fmt.Fprintf(b, "Send, %d bytes", m.Length)
	}
	if m.Lists {
		m.chunkSummary(b)
	}
	if name := m.Operation(); name != "" {
		fmt.Fprintf(b, " | %s %s", m.Direction(), name)
		if m.Detail != "" {
			b.WriteString(" " + m.Detail)
		} else {
			fmt.Fprintf(b, ", %d bytes", len(m.Header.Info))
		}
	}
	if text := m.HeaderError(); text != "" {
		b.WriteString(" " + text)
	}
	if m.Op == verbs.OpSendInvalidate {
		fmt.Fprintf(b, " invalidates %#x", m.RKey)
	}
	if m.HasRPC {
		m.RPC.summary(b)
	}
	switch {
	case m.Malformed != "":
		fmt.Fprintf(b, " [malformed: %s]", m.Malformed)
	case !m.Whole() && !m.HasRPC && (!m.Lists || m.Header.Proc == rpcrdma1.Msg):
		fmt.Fprintf(b, " [%d bytes, not seen whole]", m.Length)
	}
}

// chunkSummary adds the chunks of a header. Read segments with the same
// position form one chunk (RFC 8166 §3.4.5).
func (m *Message) chunkSummary(b *strings.Builder) {
	h := &m.Header
	for i := 0; i < len(h.Reads); {
		at, n, sum := h.Reads[i].Position, 0, uint64(0)
		for ; i < len(h.Reads) && h.Reads[i].Position == at; i++ {
			n++
			sum += uint64(h.Reads[i].Length)
		}
		chunk(b, fmt.Sprintf("read at %d", at), n, sum)
	}
	for _, w := range h.Writes {
		chunk(b, "write", len(w), total(w))
	}
	if h.HasReply {
		chunk(b, "reply", len(h.Reply), total(h.Reply))
	}
}

func chunk(b *strings.Builder, what string, segments int, bytes uint64) {
	fmt.Fprintf(b, ", %s: %d bytes", what, bytes)
	if segments != 1 {
		fmt.Fprintf(b, " in %d segments", segments)
	}
}

func total(c rpcrdma1.WriteChunk) (n uint64) {
	for _, s := range c {
		n += uint64(s.Length)
	}
	return n
}

func (r *RPC) summary(b *strings.Builder) {
	kind := "CALL"
	if r.Reply {
		kind = "REPLY"
	}
	fmt.Fprintf(b, " | %s", kind)
	prog, proc, named := r.names()
	switch {
	case named:
		fmt.Fprintf(b, " %sv%d %s", prog, r.Version, proc)
	case r.Known:
		fmt.Fprintf(b, " program %d version %d procedure %d", r.Program, r.Version, r.Procedure)
	}
	if r.Reply {
		b.WriteString(" " + r.Status)
	}
	fmt.Fprintf(b, ", %d bytes", r.Length)
}
