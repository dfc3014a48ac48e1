package loopback

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Faults say what goes wrong on a fabric. The zero value is a sound network.
type Faults struct {
	// Connect is asked when a connection request arrives. An error ends it
	// before a listener sees it and is what ID.Connect returns; for a
	// listener's answer use rdmacm.ErrUnreachable or *rdmacm.RejectedError.
	Connect func(from, to netip.AddrPort) error
	// Request is asked when a send-queue request starts. A status other than
	// WCSuccess is what it completes with; nothing of it reaches the peer, and
	// the connection ends.
	Request func(r Request) verbs.WCStatus
	// DropAfter ends a connection when it has carried this many messages
	// (requests and Read responses, both directions); 0 never does.
	DropAfter int
	// CompletionDelay holds back every completion, in order, before it
	// appears in its CQ. Memory and slots stay in use as long.
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

// SetFaults changes the faults for everything that happens from now on.
// DropAfter counts from each connection's start.
func (f *Fabric) SetFaults(x Faults) { f.faults.Store(&x) }

// connectFault asks Faults.Connect.
func (f *Fabric) connectFault(from, to netip.AddrPort) error {
	if hook := f.faults.Load().Connect; hook != nil {
		return hook(from, to)
	}
	return nil
}

// requestFault asks Faults.Request about the request at seq.
func (e *end) requestFault(w *sendEntry, seq uint64) verbs.WCStatus {
	hook := e.link.fabric.faults.Load().Request
	if hook == nil {
		return verbs.WCSuccess
	}
	return hook(Request{Local: e.local, Remote: e.remote, ID: w.id, Op: w.op, Seq: seq})
}
