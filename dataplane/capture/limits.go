package capture

// Bounds of what is kept. The memory of one connection is at most maxWaiting,
// two FPDUs, two messages in each direction and its referee.
const (
	// maxPacket is the size of a packet in the file with what belongs to it, in bytes: four times the
	// longest one of tcpdump.
	maxPacket = 1 << 20
	// maxInterfaces is the number of interfaces of a section of a pcapng file.
	maxInterfaces = 1024

	// maxFlows is the number of TCP connections that are remembered. Above it,
	// the longest silent one is dropped.
	maxFlows = 16384
	// maxFollowed is the number of RPC-over-RDMA connections that are followed
	// at the same time.
	maxFollowed = 1024
	// maxProbes is the number of flows without a handshake that are searched
	// for Sends at the same time.
	maxProbes = 256
	// maxProbe is the number of bytes in one direction after which the search
	// in such a flow ends.
	maxProbe = 1 << 20
	// maxLost is the number of bytes in one direction that are searched after a
	// loss before the connection is given up.
	maxLost = 256 << 20

	// maxWaiting and maxWaitingSegments bound the waiting segments of a flow,
	// in bytes and in number.
	maxWaiting         = 4 << 20
	maxWaitingSegments = 4096
	// maxWaitingAll bounds the memory of the waiting segments of all flows, in
	// bytes.
	maxWaitingAll = 64 << 20
	// patience is the number of segments that may wait for bytes which their
	// receiver has acknowledged. A capture may have packets in another order
	// than the network had.
	patience = 64

	// maxMessage is the number of bytes kept of one message: 1 MiB of data in a
	// chunk, and headers.
	maxMessage = 1<<20 + 64<<10
	// maxReads is the number of unanswered RDMA Reads of one side. Linux
	// negotiates 128 at most.
	maxReads = 4096

	// maxConnections is the number of connections listed in a Report,
	// maxViolations the number of violations listed of one connection. The rest
	// is counted.
	maxConnections = 16384
	maxViolations  = 100
)
