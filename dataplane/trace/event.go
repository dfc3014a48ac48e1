package trace

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Info describes a connection from its start on.
type Info struct {
	ID, Listener string
	// Number is unique among the connections of a Hub. Add sets it.
	Number      uint64
	Local, Peer netip.AddrPort
	// PeerPrivate and OwnPrivate are the private data of the handshake. Began
	// means that rdmad began the handshake. Otherwise the peer did.
	PeerPrivate, OwnPrivate []byte
	Began                   bool
}

// Event is one operation on a connection.
type Event struct {
	Time time.Time
	Conn *Conn
	Op   verbs.Opcode // OpSend, OpSendInvalidate, OpRDMAWrite, OpRDMARead
	// In means that the bytes went from the peer to us.
	In bool
	// RKey is the key that is read, written or invalidated. Addr is the address that is
	// read or written.
	RKey   uint32
	Addr   uint64
	Length int // in bytes
	// Data is the first bytes, up to the snap length.
	Data []byte
	// Midway means that the connection had events before the watcher began.
	Midway bool
	// Dropped is the number of events dropped so far for lack of room. Missing
	// is the number of those that came before this event.
	Dropped, Missing uint64
}

// Whole reports whether Data holds all bytes.
func (e *Event) Whole() bool { return len(e.Data) == e.Length }

// send reports whether the event is a message, not an RDMA operation.
func (e *Event) send() bool { return e.Op == verbs.OpSend || e.Op == verbs.OpSendInvalidate }
