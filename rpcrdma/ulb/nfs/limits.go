package nfs

import "github.com/rdmad/rdmad/rpcrdma/ulb"

// maxData is the most bytes of the data of one call that goes with a message
// of any size, what the Linux client and server have at most; room is left for
// the rest of such a message, of which it is more than half at least.
const (
	maxData = 1 << 20
	room    = 64 << 10
)

// LimitsOf are the limits of somebody who carries RPC messages of at most
// message bytes, header included, and back's on back channels. They hold for
// each call alone: no limit is there for several READs of a COMPOUND together,
// but that of its reply.
func LimitsOf(message int, back func() (call, reply uint32)) *ulb.Limits {
	return &ulb.Limits{
		Data:       uint32(min(maxData, max(message-room, message/2))),
		Message:    uint32(message),
		Operations: MaxOperations,
		Back:       back,
	}
}
