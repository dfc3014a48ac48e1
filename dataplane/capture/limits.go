package capture

// Bounds of what is kept. A connection's memory is at most maxWaiting, two
// FPDUs, two messages in each direction and what its referee keeps.
const (
	// maxFlows is the number of TCP connections that are remembered. Beyond
	// it the one that was silent for longest is forgotten.
	maxFlows = 16384
	// maxFollowed is the number of RPC-over-RDMA connections that are followed
	// at the same time.
	maxFollowed = 1024
	// maxProbes is the number of flows without a beginning in which Sends are
	// looked for at the same time.
	maxProbes = 256
	// maxProbe is the number of bytes in one direction after which such a flow
	// is not looked at any more.
	maxProbe = 1 << 20
	// maxLost is the number of bytes in one direction in which nothing is
	// found after a loss, before the connection is given up.
	maxLost = 256 << 20

	// maxWaiting and maxWaitingSegments bound the segments of a flow that wait
	// for others, in bytes and number.
	maxWaiting         = 4 << 20
	maxWaitingSegments = 4096
	// patience is the number of segments that may wait for bytes which their
	// receiver has acknowledged: a capture may have packets in another order
	// than the network had.
	patience = 64

	// maxMessage is the number of bytes kept of one message: 1 MiB of data in
	// a chunk, and headers.
	maxMessage = 1<<20 + 64<<10
	// maxReads is the number of RDMA Reads of one side that may be out. Linux
	// negotiates 128 at most.
	maxReads = 4096

	// maxConnections is the number of connections in a Report, maxViolations
	// the number of violations of one connection. The rest is counted.
	maxConnections = 16384
	maxViolations  = 100
)
