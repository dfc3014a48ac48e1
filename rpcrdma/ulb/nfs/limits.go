package nfs

import "github.com/rdmad/rdmad/rpcrdma/ulb"

// maxData is the largest data of one call, in bytes, in a message of any size: the maximum
// of the Linux client and server. room is left for the rest of such a message. Data is at
// least half of a smaller message.
const (
	maxData = 1 << 20
	room    = 64 << 10
)

// LimitsOf returns the limits of a gateway that forwards RPC messages of at most message
// bytes, header included, and back's on back channels. They hold for each call separately.
// Several READs of a COMPOUND together have no limit except that of its reply.
func LimitsOf(message int, back func() (call, reply uint32)) *ulb.Limits {
	return &ulb.Limits{
		Data:       uint32(min(maxData, max(message-room, message/2))),
		Message:    uint32(message),
		Operations: MaxOperations,
		Back:       back,
	}
}
