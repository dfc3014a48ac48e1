package referee

import "fmt"

// Side is one end of a connection.
type Side uint8

// The two ends. The client opened the connection (RFC 8167 §2).
const (
	Client Side = iota
	Server
)

// Peer returns the other end.
func (s Side) Peer() Side { return 1 - s }

func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// Vantage is the place from which a connection is seen. It decides which of two
// events in opposite directions a side may have known about.
type Vantage uint8

// The vantages.
const (
	// FromAnywhere is a capture at an unknown place: a message may have been on
	// its way when the other side sent its own.
	FromAnywhere Vantage = iota
	// FromClient is the client's end. What the client received before it sent
	// is in order.
	FromClient
	// FromServer is the server's end.
	FromServer
)

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	// Send is an RDMA Send. Data is the whole message.
	Send Kind = iota
	// SendInvalidate is an RDMA Send that invalidates STag at the receiver.
	SendInvalidate
	// Write is an RDMA Write by From into its peer's memory at STag, Offset.
	Write
	// Read is a request of From to read its peer's memory by RDMA Read.
	Read
	// ReadDone ends the oldest unfinished Read of From. Data is the data read, if known.
	ReadDone
	// Terminate is a Terminate sent by From (RFC 5040 §4.8), with Layer, Type
	// and Code.
	Terminate
	// Close means that From ended the connection, in order or not.
	Close
)

var kindNames = [...]string{"Send", "Send With Invalidate", "RDMA Write", "RDMA Read", "RDMA Read Response", "Terminate", "close"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Event is one action of one side.
type Event struct {
	Kind Kind
	From Side
	// Frame is where the event was seen: the packet's number in a capture,
	// counted from 1, or the event's own number.
	Frame uint64

	STag   uint32 // of SendInvalidate, Write, Read
	Offset uint64 // of Write, Read: the remote address
	Length int    // bytes of the message, Write or Read
	// Data has Length bytes, or fewer if the rest is not known. For Write and
	// ReadDone it may be nil.
	Data []byte

	Layer, Type, Code uint8 // of Terminate
}

// Private is the CM private data of the two sides (RFC 8797). A field is nil if
// that side sent none.
type Private struct {
	Client, Server []byte
}
