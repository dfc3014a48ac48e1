package transport

// Stats count what a connection did. They only grow.
type Stats struct {
	Calls, Replies uint64 // RPC calls and replies, of the role's direction
	ReverseCalls   uint64 // calls in the other direction

	Sends               uint64 // with and without invalidation
	SendsWithInvalidate uint64
	Receives            uint64
	RDMAReads           uint64
	RDMAWrites          uint64
	Registrations       uint64 // windows bound, and regions registered for one call
	LocalInvalidations  uint64
	RemoteInvalidations uint64 // our windows, invalidated by the peer

	Errors     uint64 // error headers sent or received, and bad replies
	Dropped    uint64 // messages too short to answer, or of an unknown version in reply
	Ignored    uint64 // messages that call for no action here
	Duplicates uint64 // calls dropped because their XID is in progress

	BytesReceived uint64 // in Sends and RDMA Reads
	BytesSent     uint64 // in Sends and RDMA Writes
}
