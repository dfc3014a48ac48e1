package transport

import (
	"log/slog"
	"net/netip"
	"time"
)

// complaintTicks is the number of ticks between two lines about one peer.
const complaintTicks = int(time.Minute / tick)

// complaints collects what a peer sent that was refused or dropped, so that
// one line tells of many: the first soon, then at most one a minute. link.mu
// guards it; lines are written without.
type complaints struct {
	count uint64 // since the last line
	first error  // of these
	rest  int    // ticks until another line may be written
}

// add notes one more.
func (c *complaints) add(why error) {
	if c.count == 0 {
		c.first = why
	}
	c.count++
}

// tick is asked once a tick, and with last at the connection's end: what is to
// be told now, if count is not 0.
func (c *complaints) tick(last bool) (count uint64, first error) {
	c.rest = max(c.rest-1, 0)
	if c.count == 0 || (c.rest > 0 && !last) {
		return 0, nil
	}
	count, first = c.count, c.first
	c.count, c.first, c.rest = 0, nil, complaintTicks
	return count, first
}

// complain writes the line.
func complain(log *slog.Logger, local, peer netip.AddrPort, count uint64, first error) {
	log.Warn("messages of the peer refused or dropped", "local", local, "peer", peer, "count", count, "reason", first)
}
