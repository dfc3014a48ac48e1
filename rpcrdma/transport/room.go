package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Room is how many connections with the same settings certainly have their first
// receives, with a limit on a host's memory in bytes.
func Room(limit int64, s *conn.Settings) int {
	size := int(s.Receives())
	if size >= placement.LeastSize {
		size += placement.Start(size)
	}
	receives := int(float64(limit) * regmem.ReceiveShare / float64(regmem.Footprint(size)))
	all := int(s.CreditsMax) + credit.Slack
	if s.CreditsPolicy == conn.CreditsAdaptive {
		return receives / min(all, firstReceives)
	}
	// Receives beyond the first take half of the memory at most, and stay.
	return max(receives/all, receives/2/firstReceives)
}
