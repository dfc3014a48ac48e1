package capture

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
)

// Bounds of a summary.
const (
	maxCalls      = 4096 // without a reply
	maxProcedures = 256
)

// summary counts what a connection did.
type summary struct {
	out   *Connection
	conn  trace.Conn
	dec   *trace.Decoder
	calls map[uint32]struct{} // forward, without a reply
	names map[string]uint64

	registrations uint64
	// fits are messages that went in chunks, by the smallest of thresholds
	// that they would fit.
	fits [len(thresholds)]Saving
}

// thresholds are the inline thresholds that are worth considering, in bytes.
var thresholds = [...]uint32{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10}

func newSummary(out *Connection, client, server netip.AddrPort) *summary {
	return &summary{
		out: out, conn: trace.Conn{Info: trace.Info{ID: "1", Local: server, Peer: client}},
		dec: trace.NewDecoder(), calls: make(map[uint32]struct{}), names: make(map[string]uint64),
	}
}

// private notes what the two sides told each other.
func (s *summary) private(client, server []byte) {
	c, _ := wire.ParsePrivateData(client)
	o, _ := wire.ParsePrivateData(server)
	s.out.ToServer, s.out.ToClient = min(c.SendSize, o.ReceiveSize), min(o.SendSize, c.ReceiveSize)
	s.out.RemoteInvalidation = c.RemoteInvalidation && o.RemoteInvalidation
}

// gap forgets calls: their replies may be missing.
func (s *summary) gap() { clear(s.calls) }

func (s *summary) observe(e *referee.Event) {
	switch e.Kind {
	case referee.Send:
		s.out.Sends++
		s.message(e, verbs.OpSend)
	case referee.SendInvalidate:
		s.out.Sends++
		s.out.SendsWithInvalidate++
		s.message(e, verbs.OpSendInvalidate)
	case referee.Write:
		s.out.RDMAWrites++
	case referee.Read:
		s.out.RDMAReads++
	case referee.Terminate:
		s.out.Terminates++
	}
}

// message counts a Send.
func (s *summary) message(e *referee.Event, op verbs.Opcode) {
	forward := e.From == referee.Client
	m := s.dec.Decode(&trace.Event{Conn: &s.conn, Op: op, In: forward, RKey: e.STag, Length: e.Length, Data: e.Data})
	if !m.Prefix || !m.Lists {
		return
	}
	h := &m.Header
	if h.Proc != rpcrdma1.Error {
		s.out.RPCVersion = h.Version
	}
	switch call, reply := kindOf(m); {
	case call && forward:
		s.call(m)
	case reply && !forward:
		s.reply(m)
	case call:
		s.out.ReverseCalls++
	case reply:
		s.out.ReverseReplies++
	}
}

// kindOf says whether a message is a call or a reply; it may be neither.
func kindOf(m *trace.Message) (call, reply bool) {
	h := &m.Header
	switch {
	case h.Proc == rpcrdma1.Error:
		return false, true
	case m.HasRPC:
		return !m.RPC.Reply, m.RPC.Reply
	case h.Proc == rpcrdma1.NoMsg && h.Version == rpcrdma2.Version:
		return h.Direction == rpcrdma2.Call, h.Direction == rpcrdma2.Reply
	case h.Proc == rpcrdma1.NoMsg:
		return len(h.Reads) > 0, len(h.Reads) == 0
	}
	return false, false
}

// call counts a call of the client.
func (s *summary) call(m *trace.Message) {
	s.out.Calls++
	s.out.Credits.Requested = max(s.out.Credits.Requested, m.Header.Credits)
	if len(s.calls) < maxCalls {
		s.calls[m.Header.XID] = struct{}{}
	}
	s.out.Credits.Used = max(s.out.Credits.Used, uint32(len(s.calls)))
	s.names[s.name(m)]++
	h := &m.Header
	segments, bytes := 0, uint64(0)
	for i := range h.Reads {
		segments++
		bytes += uint64(h.Reads[i].Length)
	}
	s.fit(m, s.out.ToServer, segments, bytes)
	for _, w := range h.Writes {
		segments += len(w)
	}
	s.registrations += uint64(segments + len(h.Reply))
}

// reply counts a reply of the server.
func (s *summary) reply(m *trace.Message) {
	s.out.Replies++
	h := &m.Header
	s.out.Credits.Granted = max(s.out.Credits.Granted, h.Credits)
	delete(s.calls, h.XID)
	segments, bytes := 0, uint64(0)
	for _, w := range append(h.Writes[:len(h.Writes):len(h.Writes)], h.Reply) {
		for i := range w {
			if w[i].Length > 0 {
				segments++
				bytes += uint64(w[i].Length)
			}
		}
	}
	s.fit(m, s.out.ToClient, segments, bytes)
}

// fit notes a message of which bytes went in chunks.
func (s *summary) fit(m *trace.Message, now uint32, segments int, bytes uint64) {
	need := max(uint64(m.Length)+bytes, uint64(now))
	for i, t := range thresholds {
		if segments > 0 && need <= uint64(t) {
			f := &s.fits[i]
			f.Messages++
			f.Operations += uint64(segments)
			f.Registrations += uint64(segments)
			return
		}
	}
}

// name is what a call is listed under.
func (s *summary) name(m *trace.Message) string {
	name := m.RPC.Name()
	switch {
	case name == "" && !m.HasRPC:
		name = "in a chunk"
	case name == "":
		name = fmt.Sprintf("program %d version %d procedure %d", m.RPC.Program, m.RPC.Version, m.RPC.Procedure)
	}
	if _, ok := s.names[name]; !ok && len(s.names) == maxProcedures {
		return "others"
	}
	return name
}

// finish works out what depends on all that was counted.
func (s *summary) finish() {
	c := s.out
	if n := float64(c.Calls); n > 0 {
		c.PerCall = PerCall{float64(c.Sends) / n, float64(c.RDMAReads) / n, float64(c.RDMAWrites) / n, float64(s.registrations) / n}
	}
	for name, n := range s.names {
		c.Procedures = append(c.Procedures, Procedure{name, n})
	}
	slices.SortFunc(c.Procedures, func(a, b Procedure) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name)) })
	var sum Saving
	for i, f := range s.fits {
		if f.Messages > 0 {
			sum = Saving{thresholds[i], sum.Messages + f.Messages, sum.Operations + f.Operations, sum.Registrations + f.Registrations}
			c.Savings = append(c.Savings, sum)
		}
	}
}
