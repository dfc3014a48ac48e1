package dataplane

import (
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Tracing returns the hub through which watchers observe connections.
func (d *Dataplane) Tracing() *trace.Hub { return &d.tracing }

// traced registers a connection that is about to be made with the hub.
func (c *conn) traced(req *rpcrdma.Request) *rpcrdma.Tap {
	peer, own := req.PrivateData(c.atConnect)
	c.trace = c.e.d.tracing.Add(trace.Info{
		ID: c.key.ID, Listener: c.key.Listener, Local: req.LocalAddr(), Peer: c.peer,
		PeerPrivate: peer, OwnPrivate: own,
	})
	return c.trace.Tap()
}
