package referee

import "fmt"

// Side is one end of a connection.
type Side uint8

// The two ends. The client opened the connection (RFC 8167 §2).
const (
	Client Side = iota
	Server
)

// Peer is the other end.
func (s Side) Peer() Side { return 1 - s }

func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// Vantage is the place from which a connection is seen. It decides which of
// two events on opposite ways may have been known to whom.
type Vantage uint8

// Places to see a connection from.
const (
	// FromAnywhere is a capture whose place is unknown: a message may have
	// been on its way when the other side sent its own.
	FromAnywhere Vantage = iota
	// FromClient is the client's end: what the client received before it sent
	// is in order.
	FromClient
	// FromServer is the server's end.
	FromServer
)

// Kind is the kind of an event.
type Kind uint8

// Kinds of events.
const (
	// Send is a message (RDMA Send). Data is the whole message.
	Send Kind = iota
	// SendInvalidate is a Send that invalidates STag at the receiver.
	SendInvalidate
	// Write is an RDMA Write by From into its peer's memory at STag, Offset.
	Write
	// Read is the request of an RDMA Read by From of its peer's memory.
	Read
	// ReadDone is the end of the oldest Read of From that is not done. Data
	// is what was read, if it is known.
	ReadDone
	// Terminate is a Terminate by From (RFC 5040 §4.8): Layer, Type, Code.
	Terminate
	// Close is the end of the connection by From, in order or not.
	Close
)

var kindNames = [...]string{"Send", "Send With Invalidate", "RDMA Write", "RDMA Read", "RDMA Read Response", "Terminate", "close"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is what one side did.
type Event struct {
	Kind Kind
	From Side
	// Frame is where the event was seen: the packet's number in a capture,
	// counted from 1, or the event's own number.
	Frame uint64

	STag   uint32 // of SendInvalidate, Write, Read
	Offset uint64 // of Write, Read: the remote address
	Length int    // bytes of a message, Write or Read
	// Data has Length bytes, or fewer when the rest is not known; of a Write
	// or ReadDone it may be missing.
	Data []byte

	Layer, Type, Code uint8 // of Terminate
}

// Private is the CM private data of the two sides (RFC 8797); nil where a side
// sent none.
type Private struct {
	Client, Server []byte
}
