package characteristics

import (
	"bytes"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Support is whether the peer is known to have the extension.
type Support uint8

// The values of Support.
const (
	Unknown Support = iota // nothing was exchanged yet
	Supported
	Unsupported // for as long as the connection lives
)

// State announces a role's characteristics and learns those of the peer. Sizes are in
// bytes.
type State struct {
	// Told are the peer's characteristics. Own are ours, from the settings and the posted
	// receives. Known are ours as last announced to the peer.
	Told, Own, Known rpcrdma2.Values
	Targets          placement.Targets
	Peer             Support

	// Requester is set for a requester. Revocable means that its device lets the peer
	// invalidate STags. Serves means that a handler answers calls of its responder.
	Requester, Revocable, Serves bool

	// The peer may rely on every posted receive having Receive bytes. Target is the size of
	// receives posted from now on.
	Receive, Target uint32

	// Unsent counts operations that are being sent. The role maintains it.
	Unsent int

	cfg     Config
	stay    fixed // fixed characteristics of the peer
	silent  bool  // the peer has turned the extension off
	sized   bool  // the peer announced its receive size
	wish    wish
	keep    uint32 // see Keep
	unacked bool   // one of our UPDATEs may not have arrived

	// below counts the posted receives that are still smaller than Target. pings is how
	// many more REQUESTs may be sent to make the peer consume them.
	below, pings int

	request struct { // our last INIT or REQUEST
		open bool
		xid  uint32
		size uint32 // the receive size asked for, which we respect since then; 0 means none
		acks bool   // its answer shows that the last UPDATE has arrived
	}
}

// Start initializes the state for receives of receive bytes.
func (c *State) Start(cfg Config, receive uint32) {
	c.Told, c.Known = rpcrdma2.DefaultValues(), rpcrdma2.DefaultValues()
	c.Receive, c.Target = receive, receive
	c.Targets.Own = new(placement.Own)
	c.Apply(cfg)
}

// Apply applies new settings. Posted receives may then be larger than the settings ask for.
func (c *State) Apply(cfg Config) {
	c.cfg = cfg
	c.Keep(c.keep)
	c.derive()
}

// Keep keeps receives at n bytes or more, even if the settings ask for less: the peer may still
// send as much, whatever is announced to it now.
func (c *State) Keep(n uint32) {
	c.keep = min(n, c.Receive)
	c.wish.own = max(c.wanted(), c.keep)
}

// Keeps reports whether receives are larger than the settings ask for because of Keep.
func (c *State) Keeps() bool { return c.keep > c.wanted() }

// wanted returns the receive size that the settings ask for, in bytes.
func (c *State) wanted() uint32 { return max(c.cfg.Receives, rpcrdma2.DefaultReceiveSize) }

// PlanFor limits what is planned for the peer's messages to n bytes.
func (c *State) PlanFor(n uint32) {
	c.Receive = min(c.Receive, n)
	c.derive()
}

// derive computes our own characteristics. A responder has the defaults for those that only
// a requester announces.
func (c *State) derive() {
	c.Own = c.cfg.Values(c.Receive)
	c.Targets.Begin(c.Receive)
	if c.cfg.Places {
		c.Own.Buffer = c.Targets.Tell(c.Receive)
	}
	if !c.Requester {
		return
	}
	c.Own.Invalidation = c.Revocable && c.cfg.Invalidation
	if !c.Serves || !c.cfg.Backward {
		c.Own.Backward = rpcrdma2.BackwardNone
	}
}

// Takes reports whether operations are accepted: always from a peer that has the extension
// or was asked for it, even if the extension was turned off since.
func (c *State) Takes() bool { return c.cfg.On || c.Peer == Supported || c.request.open }

// PeerReceive returns the largest Send that the peer takes, in bytes. ok is false if the
// peer announced nothing.
func (c *State) PeerReceive() (n uint32, ok bool) {
	if c.Peer != Supported {
		return 0, false
	}
	n = c.Told.ReceiveSize
	if c.request.size != 0 {
		n = min(n, c.request.size)
	}
	return n, true
}

// Planned returns the largest Send of the peer to plan for, in bytes: the announced size,
// or less if we want less and the peer knows the receive wish.
func (c *State) Planned() uint32 {
	if c.Peer != Supported {
		return c.Receive
	}
	return c.wish.planned(c.Known.ReceiveSize)
}

// Asking returns the XID of our INIT or REQUEST that has no answer yet.
func (c *State) Asking() (xid uint32, open bool) { return c.request.xid, c.request.open }

// changed returns the characteristics to announce. With tell it marks them as announced.
// clear is as for Next.
func (c *State) changed(clear, tell bool) rpcrdma2.Set {
	var set rpcrdma2.Set
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		now := c.Own.Encode(id)
		again := id == rpcrdma2.CharReceiveBuffer && len(now.Data) > 0 && c.Own.ReceiveSize != c.Known.ReceiveSize // rtrext §8.3
		if again || !bytes.Equal(now.Data, c.Known.Encode(id).Data) {
			set = append(set, now)
		}
	}
	size, wish := c.wish.next(c.Known.ReceiveSize, clear)
	if wish {
		set = append(set, wishOf(size))
	}
	if !tell {
		return set
	}
	if c.Own.ReceiveSize > c.Known.ReceiveSize {
		c.wish.raised(c.Own.ReceiveSize)
	}
	c.Known = c.Own
	if wish {
		c.wish.sent(size, c.Known.ReceiveSize)
	}
	return set
}

// Resize reports whether new receives must have c.Target bytes from now on: larger ones, or
// the size that the peer knows when larger ones are no longer wanted.
func (c *State) Resize() bool {
	size := c.Known.ReceiveSize
	if c.cfg.On {
		size = max(size, c.wish.own)
	}
	if c.Peer != Supported || size == c.Target {
		return false
	}
	c.Targets.Begin(size)
	if c.Target = size; size < c.Receive {
		c.Receive = size
		c.derive()
	}
	return true
}

// Posted is the event that below of all our receives are smaller than Target. Receives take
// messages in turn.
func (c *State) Posted(below, all int) {
	c.below, c.pings = below, all
	if below == 0 && c.Target > c.Receive {
		c.Receive = c.Target
		c.derive()
	}
}

// Next returns the next operation to send, or nil if there is none now. clear means that no
// answer in flight can be longer than the receives that our settings ask for. requests
// means that a REQUEST may be sent.
func (c *State) Next(clear, requests bool) rpcrdma2.Body {
	if !c.cfg.On || c.Peer != Supported || c.silent {
		return nil
	}
	more := len(c.changed(clear, false)) > 0
	switch {
	case more && !c.unacked:
		c.unacked = true
		return &rpcrdma2.Update{Now: c.changed(clear, true)}
	case c.request.open || !requests:
		return nil
	case c.wish.ask:
		c.wish.ask = false
		if c.wish.told < c.Told.ReceiveSize {
			c.request.size = c.wish.told
			return &rpcrdma2.Request{Want: rpcrdma2.Set{sizeOf(c.wish.told)}}
		}
		return c.Next(clear, requests)
	case more || c.floored():
		return &rpcrdma2.Request{}
	case c.below > 0 && c.pings > 0:
		c.pings--
		return &rpcrdma2.Request{}
	}
	return nil
}

// Due reports whether there is something to send, now or later.
func (c *State) Due() bool {
	return c.cfg.On && c.Peer == Supported && !c.silent &&
		(len(c.changed(true, false)) > 0 || c.wish.ask || c.floored() || (c.below > 0 && c.pings > 0))
}

// floored reports whether a REQUEST is due. Its answer shows that the peer no longer asks
// for an earlier wish.
func (c *State) floored() bool { return c.unacked && c.wish.floored() }

// Requests records that an INIT or REQUEST goes out as xid.
func (c *State) Requests(xid uint32) {
	c.request.open, c.request.xid, c.request.acks = true, xid, c.unacked
}

func sizeOf(n uint32) rpcrdma2.Characteristic {
	v := rpcrdma2.Values{ReceiveSize: n}
	return v.Encode(rpcrdma2.CharReceiveSize)
}
