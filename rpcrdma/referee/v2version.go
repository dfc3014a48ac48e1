package referee

// firstSize is the largest first message of version 2, in bytes. A responder of
// version 1 may receive it (version two §5).
const firstSize = 1024

// negotiation is the state of the version negotiation (version two §5).
type negotiation struct {
	agreed uint32 // version of the server's first answer that is no error, or 0
	// offered is true while the client's first message of version 2 waits for
	// an answer.
	offered bool
	// low and top are the range of the server's ERR_VERS.
	low, top uint32
	refused  bool
	missed   bool
	tried    [3]bool // versions of the client's messages so far
	greeted  bool    // the server sent a message of version 2 first
}

// answers reports whether a message of the server may answer one of the client:
// the client has sent a message of this version.
func (n *negotiation) answers(vers uint32) bool {
	return vers < uint32(len(n.tried)) && (n.missed || n.tried[vers])
}

// negotiate judges the version of a message. At this point only the header's
// fixed prefix is known. failed means that it is an ERROR or XMTERR. It returns false
// if the receiver does not speak the version any more.
func (r *Referee) negotiate(m *message, failed bool) bool {
	n := &r.v2.negotiation
	switch {
	case n.agreed != 0 && m.vers != n.agreed && !failed:
		r.report("version.changed", m.from, "XID %#x has version %d on a connection of version %d", m.xid, m.vers, n.agreed)
		return false
	case n.agreed != 0:
	case m.from == Server && failed:
		n.offered = false
	case m.from == Server && !n.answers(m.vers):
		n.greeted = n.greeted || m.vers == 2
		n.offered = n.offered && m.vers == 2 // the client may choose another version after a bad answer
	case m.from == Server:
		n.agreed, n.offered, m.agrees = m.vers, false, true
	case failed, r.dirs[Server].calls[m.xid] != nil: // it may answer the server
	default:
		r.offered(n, m)
	}
	return true
}

// offered judges a message of the client before a version is agreed.
func (r *Referee) offered(n *negotiation, m *message) {
	if n.missed {
		return
	}
	if m.vers < uint32(len(n.tried)) {
		n.tried[m.vers] = true
	}
	if n.refused && n.tried[2] && (m.vers < n.low || m.vers > n.top) {
		r.report("version.range", m.from, "XID %#x has version %d, the server speaks %d to %d", m.xid, m.vers, n.low, n.top)
	}
	if n.greeted { // the client knows that the server speaks version 2
		return
	}
	if n.offered {
		r.report("version.first-alone", m.from, "XID %#x follows the first message of version 2 before its answer", m.xid)
		return
	}
	if m.vers != 2 {
		return
	}
	n.offered = true
	if m.length > firstSize {
		r.report("version.first-size", m.from, "the first message has %d bytes", m.length)
	}
}

// refusedVersion records the range of an ERR_VERS from the server.
func (r *Referee) refusedVersion(m *message) {
	if n := &r.v2.negotiation; m.from == Server && m.errCode == errVers && n.agreed == 0 && m.versLow <= m.versTop {
		n.refused, n.low, n.top = true, m.versLow, m.versTop
	}
}
