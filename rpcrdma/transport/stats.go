package transport

// Stats are the counters of a connection. They only grow.
//
// The second half matches the line "xprt: rdma" of a Linux client's mountstats
// (xprt_rdma_print_stats), as far as it applies here. There is no bind_count, because there
// is no rpcbind call; connect_count is always 1; there is no mrs_recycled, because an error
// ends the connection; there is no reply_waits_for_send, because a Send holds its memory
// itself. Names in the comments are the kernel's.
type Stats struct {
	Calls, Replies uint64 // RPC calls and replies in the role's direction
	ReverseCalls   uint64 // calls from server to client, made or received
	ReverseReplies uint64 // their replies

	Sends               uint64 // with and without invalidation
	SendsWithInvalidate uint64
	Receives            uint64
	RDMAReads           uint64
	RDMAWrites          uint64
	Registrations       uint64 // windows bound, and regions registered for one call
	LocalInvalidations  uint64
	RemoteInvalidations uint64 // our windows, invalidated by the peer
	// RoundTrips counts the changes of direction for which calls of the forward direction
	// waited, halved: 1 for each answered call, 1 more if the responder read from the
	// requester before it could answer, and 1 more if the requester read the answer.
	// Messages in the same direction add none. Both roles count the same.
	RoundTrips uint64

	Errors     uint64 // error headers sent or received, and bad replies, but not ERR_VERS for a first message
	Dropped    uint64 // messages too short to answer, or of an unknown version in reply
	Ignored    uint64 // messages that need no action
	Duplicates uint64 // calls dropped because their XID is in progress

	BytesReceived uint64 // in Sends and RDMA Reads
	BytesSent     uint64 // in Sends and RDMA Writes

	BadXIDs       uint64 // bad_xids: replies that match no call in flight
	InFlightSum   uint64 // req_u: calls in progress, summed at each Send
	BacklogSum    uint64 // bklog_u: calls waiting for credits or, at a responder, for memory, summed likewise
	ReadChunks    uint64 // read_chunk_count: read segments in calls
	WriteChunks   uint64 // write_chunk_count: segments of write chunks in calls
	ReplyChunks   uint64 // reply_chunk_count: segments of reply chunks in calls
	OfferedBytes  uint64 // total_rdma_request: memory offered for replies
	PlacedBytes   uint64 // total_rdma_reply: bytes of replies placed in that memory
	PullupBytes   uint64 // pullup: bytes copied to send them
	FixupBytes    uint64 // fixup_copy: bytes of results copied to where the caller wants them
	HardwayRegs   uint64 // hardway_register: buffers registered because the pool had none
	FailedMarshal uint64 // failed_marshal: calls that could not be composed
	BadReplies    uint64 // bad_reply: replies refused
	LongCalls     uint64 // nomsg_call: calls in a position-zero read chunk

	RepliesTooLong   uint64 // replies that did not fit into what the peer offered, also in Errors
	RepliesReclaimed uint64 // replies for the peer to read that it did not acknowledge in time

	WindowsAllocated uint64 // mrs_allocated
	WindowsOrphaned  uint64 // mrs_orphaned: exposed when the connection ended
	CallsFenced      uint64 // local_inv_needed: calls with windows left to invalidate
	SendQueueFull    uint64 // empty_sendctx_q: work that had to wait for a slot

	// RDMA operations of the peer on our memory. Verbs do not notify the target of an RDMA
	// operation, so these counts follow from the protocol. Each read segment of an answered
	// call was read, by one or more RDMA Reads. A segment that a reply returns with a
	// length was written, by one or more RDMA Writes.
	CallsRead  uint64 // answered calls with read chunks
	PeerReads  uint64 // their read segments
	PeerWrites uint64 // segments written
}

// Add adds the counters of another connection.
func (s *Stats) Add(o *Stats) { s.AddSince(&Stats{}, o) }

// AddSince adds what another connection counted between two moments. Each field has a line
// here: reflection would cost most of the time in which statistics of many connections are
// read.
func (s *Stats) AddSince(before, now *Stats) {
	s.Calls += now.Calls - before.Calls
	s.Replies += now.Replies - before.Replies
	s.ReverseCalls += now.ReverseCalls - before.ReverseCalls
	s.ReverseReplies += now.ReverseReplies - before.ReverseReplies
	s.Sends += now.Sends - before.Sends
	s.SendsWithInvalidate += now.SendsWithInvalidate - before.SendsWithInvalidate
	s.Receives += now.Receives - before.Receives
	s.RDMAReads += now.RDMAReads - before.RDMAReads
	s.RDMAWrites += now.RDMAWrites - before.RDMAWrites
	s.Registrations += now.Registrations - before.Registrations
	s.LocalInvalidations += now.LocalInvalidations - before.LocalInvalidations
	s.RemoteInvalidations += now.RemoteInvalidations - before.RemoteInvalidations
	s.RoundTrips += now.RoundTrips - before.RoundTrips
	s.Errors += now.Errors - before.Errors
	s.Dropped += now.Dropped - before.Dropped
	s.Ignored += now.Ignored - before.Ignored
	s.Duplicates += now.Duplicates - before.Duplicates
	s.BytesReceived += now.BytesReceived - before.BytesReceived
	s.BytesSent += now.BytesSent - before.BytesSent
	s.BadXIDs += now.BadXIDs - before.BadXIDs
	s.InFlightSum += now.InFlightSum - before.InFlightSum
	s.BacklogSum += now.BacklogSum - before.BacklogSum
	s.ReadChunks += now.ReadChunks - before.ReadChunks
	s.WriteChunks += now.WriteChunks - before.WriteChunks
	s.ReplyChunks += now.ReplyChunks - before.ReplyChunks
	s.OfferedBytes += now.OfferedBytes - before.OfferedBytes
	s.PlacedBytes += now.PlacedBytes - before.PlacedBytes
	s.PullupBytes += now.PullupBytes - before.PullupBytes
	s.FixupBytes += now.FixupBytes - before.FixupBytes
	s.HardwayRegs += now.HardwayRegs - before.HardwayRegs
	s.FailedMarshal += now.FailedMarshal - before.FailedMarshal
	s.BadReplies += now.BadReplies - before.BadReplies
	s.LongCalls += now.LongCalls - before.LongCalls
	s.RepliesTooLong += now.RepliesTooLong - before.RepliesTooLong
	s.RepliesReclaimed += now.RepliesReclaimed - before.RepliesReclaimed
	s.WindowsAllocated += now.WindowsAllocated - before.WindowsAllocated
	s.WindowsOrphaned += now.WindowsOrphaned - before.WindowsOrphaned
	s.CallsFenced += now.CallsFenced - before.CallsFenced
	s.SendQueueFull += now.SendQueueFull - before.SendQueueFull
	s.CallsRead += now.CallsRead - before.CallsRead
	s.PeerReads += now.PeerReads - before.PeerReads
	s.PeerWrites += now.PeerWrites - before.PeerWrites
}
