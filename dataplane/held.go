package dataplane

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
)

// tell announces to the peer a size of Sends for which it has receives.
func (c *conn) tell(req *rpcrdma.Request) {
	c.receiver = receiver{c.key.Peer, req.PeerReceive()}
	req.LimitSend(c.l.receivers.tell(c.receiver, c.atConnect.InlineSendMax, time.Now()))
}

// down is called at the connection's end. If the peer had no receive for a Send of
// the announced size, a smaller size is announced on its next connections.
func (c *conn) down(err error) {
	bound := c.rc.Info().PeerReceive
	if bound <= rpcrdma.InlineMin || !errors.Is(err, verbs.ErrNoReceive) || !c.l.receivers.refuse(c.receiver) {
		return
	}
	c.l.d.log.Warn("the peer has smaller receives than it said, perhaps of an earlier connection: its next connections get smaller Sends",
		"conn", c.key.ID, "listener", c.key.Listener, "peer", c.peer.String(),
		"told", bound, "next", rpcrdma.InlineMin, "forgotten_after", forgetReceiver)
}

// heldNow says, for operators, why the peer gets no larger Sends although the
// settings want them and it takes them; else "".
func (c *conn) heldNow() string {
	if p := c.peerFacts(); c.settings.Load().InlineSendMax > p.Bound {
		return p.Held()
	}
	return ""
}
