package dataplane

import (
	"errors"
	"fmt"
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

// held says, for operators, why the peer gets no larger Sends although it takes
// them: what it may have receives for; "" when it gets them, or asks a connector.
func (c *conn) held(peer *limits) string {
	if c.rc == nil || peer.receive <= peer.bound {
		return ""
	}
	why := "this size was announced to the peer"
	if c.l.receivers.refused(c.receiver) {
		why = "the peer had no receive for a larger Send"
	}
	return fmt.Sprintf("held at %d bytes: %s, and it may keep receives of this size until it has had no connection for %v", peer.bound, why, forgetReceiver)
}

// heldNow is held when the settings want larger Sends.
func (c *conn) heldNow() string {
	if peer := c.peerLimits(KeyInlineSendMax); c.settings.Load().InlineSendMax > peer.bound {
		return peer.held
	}
	return ""
}
