package trace

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Info is what is known of a connection from its beginning.
type Info struct {
	ID, Listener string
	// Number is unique among connections.
	Number      uint64
	Local, Peer netip.AddrPort
	// PeerPrivate and OwnPrivate are the private data of the handshake, which
	// the peer began, or with Began we.
	PeerPrivate, OwnPrivate []byte
	Began                   bool
}

// Event is something that happened on a connection.
type Event struct {
	Time time.Time
	Conn *Conn
	Op   verbs.Opcode // OpSend, OpSendInvalidate, OpRDMAWrite, OpRDMARead
	// In: the bytes went from the peer to us.
	In bool
	// RKey is the key read, written or invalidated, Addr the address read or
	// written.
	RKey   uint32
	Addr   uint64
	Length int // bytes
	// Data are the first bytes, as many as the snap length allows.
	Data []byte
	// Midway: events of the connection came before those that the watcher
	// sees.
	Midway bool
	// Dropped is the number of events that the watcher had no room for so far.
	// Missing is how many of them came before this event: the others came after.
	Dropped, Missing uint64
}

// Whole says whether Data is all there was.
func (e *Event) Whole() bool { return len(e.Data) == e.Length }

// send says whether the event is a message, not an RDMA operation.
func (e *Event) send() bool { return e.Op == verbs.OpSend || e.Op == verbs.OpSendInvalidate }
