package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Room returns for how many more connections with these settings there is memory for their
// first receives now.
func (h *Host) Room(s *settings.Settings) int {
	size := int(s.Receives())
	if size >= placement.LeastSize {
		size += placement.Start(size)
	}
	first := min(int(s.CreditsMax)+credit.Slack, firstReceives)
	return int(h.pool.FreeForReceives()) / (first * regmem.Footprint(size))
}
