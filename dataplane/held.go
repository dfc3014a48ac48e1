package dataplane

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
)

// tell announces to the peer a size of Sends for which the peer has receives.
func (c *conn) tell(req *rpcrdma.Request) {
	c.receiver = receiver{c.key.Peer, req.PeerReceive()}
	req.LimitSend(c.l.receivers.tell(c.receiver, c.atConnect.InlineSendMax, time.Now()))
}

// down is called when the connection ends. If the peer had no receive for a Send of the
// announced size, its next connections announce a smaller size.
func (c *conn) down(err error) {
	bound := c.rc.Info().PeerReceive
	if bound <= rpcrdma.InlineMin || !errors.Is(err, verbs.ErrNoReceive) || !c.l.receivers.refuse(c.receiver) {
		return
	}
	c.e.d.log.Warn("the peer has smaller receives than it said, perhaps of an earlier connection: its next connections get smaller Sends",
		"conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"told", bound, "next", rpcrdma.InlineMin, "forgotten_after", forgetReceiver)
}

// heldAs returns, for operators, why Sends to the peer are smaller than the settings and
// the peer allow, or "" if they are not. i is the connection's current state.
func (c *conn) heldAs(i *rpcrdma.Info) string {
	if p := c.peerFacts(i); c.settings.Load().InlineSendMax > p.Bound {
		return p.Held()
	}
	return ""
}
