package loopback

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Faults are the faults of a fabric. The zero value has none.
type Faults struct {
	// Request is called when a send-queue request starts. If it returns a status other than
	// WCSuccess, the request completes with it, nothing reaches the peer, and the
	// connection ends.
	Request func(r Request) verbs.WCStatus
	// DropAfter ends a connection after this many messages (requests and Read responses,
	// both directions). 0 means never.
	DropAfter int
	// CompletionDelay delays every completion, in order, before it appears in its CQ.
	// Memory and slots stay in use for as long.
	CompletionDelay time.Duration
}

// Request describes a send-queue request to Faults.Request.
type Request struct {
	Local, Remote netip.AddrPort
	ID            uint64
	Op            verbs.Opcode
	// Seq counts the requests of its queue pair from 0.
	Seq uint64
}

// SetFaults changes the faults from now on. DropAfter counts from each connection's start.
func (f *Fabric) SetFaults(x Faults) { f.faults.Store(&x) }

// requestFault calls Faults.Request for the request at seq.
func (e *end) requestFault(w *sendEntry, seq uint64) verbs.WCStatus {
	hook := e.link.fabric.faults.Load().Request
	if hook == nil {
		return verbs.WCSuccess
	}
	return hook(Request{Local: e.LocalAddr(), Remote: e.RemoteAddr(), ID: w.id, Op: w.op, Seq: seq})
}
