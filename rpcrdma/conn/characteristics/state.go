package characteristics

import (
	"bytes"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Support is what is known about the peer's having the extension.
type Support uint8

// The states of that knowledge.
const (
	Unknown Support = iota // nothing was exchanged yet
	Supported
	Unsupported // for as long as the connection lives
)

// State is the part of a role that announces characteristics and learns those of
// the peer. Sizes are in bytes.
type State struct {
	// Told are the peer's. Own are ours, as the settings and the posted receives
	// make them. Known are ours as the peer was told.
	Told, Own, Known rpcrdma2.Values
	Targets          placement.Targets
	Peer             Support

	// Requester is set for a requester; Revocable when its device can take STags
	// back, and Serves when somebody answers calls of its responder.
	Requester, Revocable, Serves bool

	// Every posted receive has at least Receive bytes, as far as the peer may count
	// on it. Target is the size of receives posted from now on.
	Receive, Target uint32

	// Unsent counts operations that are being sent. It is the role's.
	Unsent int

	cfg     Config
	stay    fixed // characteristics of the peer
	silent  bool  // the peer has turned the extension off
	sized   bool  // the peer announced its receive size
	wish    wish
	unacked bool // an UPDATE of ours may not have arrived

	// below counts the posted receives that are still smaller than Target. pings is
	// how many more REQUESTs may be made to have the peer use them up.
	below, pings int

	request struct { // our last INIT or REQUEST
		open bool
		xid  uint32
		size uint32 // the receive size asked for, kept to since; 0: none
		acks bool   // its answer shows that the last UPDATE has arrived
	}
}

// Start begins with receives of so many bytes.
func (c *State) Start(cfg Config, receive uint32) {
	c.Told, c.Known = rpcrdma2.DefaultValues(), rpcrdma2.DefaultValues()
	c.Receive, c.Target = receive, receive
	c.Targets.Own = new(placement.Own)
	c.Apply(cfg)
}

// Apply takes new settings. They may leave receives that are larger than wanted.
func (c *State) Apply(cfg Config) {
	c.cfg = cfg
	c.wish.own = max(cfg.Receives, rpcrdma2.DefaultReceiveSize)
	c.derive()
}

// PlanFor has the peer's messages planned for receives of at most n bytes.
func (c *State) PlanFor(n uint32) {
	c.Receive = min(c.Receive, n)
	c.derive()
}

// derive makes our own characteristics from what they depend on. Those of a
// requester alone are the defaults at a responder.
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

// Takes says whether operations are taken: those of a peer that has the extension
// or was asked for it, even when the extension was turned off since.
func (c *State) Takes() bool { return c.cfg.On || c.Peer == Supported || c.request.open }

// PeerReceive is the most bytes of one Send that the peer takes; ok is false when
// it announced nothing.
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

// Planned is the most bytes of one Send of the peer to plan for: what it was told,
// or less where the wish is less and the peer knows how to ask.
func (c *State) Planned() uint32 {
	if c.Peer != Supported {
		return c.Receive
	}
	return c.wish.planned(c.Known.ReceiveSize)
}

// Asking gives the XID of our INIT or REQUEST that is not answered.
func (c *State) Asking() (xid uint32, open bool) { return c.request.xid, c.request.open }

// changed lists what the peer is to be told, and takes it for told if tell is set.
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

// Resize says whether new receives have to be of c.Target bytes from now on: larger
// ones, or as the peer knows them when larger ones are no longer wanted.
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

// Posted is the event that below of all our receives are smaller than Target. They
// take messages in turn.
func (c *State) Posted(below, all int) {
	c.below, c.pings = below, all
	if below == 0 && c.Target > c.Receive {
		c.Receive = c.Target
		c.derive()
	}
}

// Next is the next operation to send, nil if there is none now. clear says that no
// answer may come that is longer than our settings want receives to be; requests
// says whether a REQUEST may go.
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

// Due says that there is something to send, now or when it may go.
func (c *State) Due() bool {
	return c.cfg.On && c.Peer == Supported && !c.silent &&
		(len(c.changed(true, false)) > 0 || c.wish.ask || c.floored() || (c.below > 0 && c.pings > 0))
}

// floored says that a REQUEST is due to learn that the peer does not ask for an
// earlier wish.
func (c *State) floored() bool { return c.unacked && c.wish.floored() }

// Requests notes that an INIT or REQUEST goes out as xid.
func (c *State) Requests(xid uint32) {
	c.request.open, c.request.xid, c.request.acks = true, xid, c.unacked
}

func sizeOf(n uint32) rpcrdma2.Characteristic {
	v := rpcrdma2.Values{ReceiveSize: n}
	return v.Encode(rpcrdma2.CharReceiveSize)
}
