package characteristics

import (
	"bytes"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Learn applies the characteristics that the peer announced: all of them or, with an error,
// none. It skips unknown ones.
func (c *State) Learn(set rpcrdma2.Set) error {
	v, wish := c.Told, uint32(0)
	var size, buffer bool
	for _, is := range set {
		switch is.ID {
		case rpcrdma2.CharReceiveSize:
			size = true
		case rpcrdma2.CharReceiveBuffer:
			buffer = true
		case charReceiveWish:
			wish = wishIn(is, wish)
			continue
		}
		if _, err := v.Set(is); err != nil {
			return err
		}
	}
	switch {
	case buffer && !size && !c.sized: // rtrext §8.3
		v.ReceiveSize = rpcrdma2.DefaultReceiveSize
		if len(v.Buffer.Groups) > 0 {
			v.ReceiveSize = v.Buffer.Length
		}
	case size && !buffer && !c.stay.has(rpcrdma2.CharReceiveBuffer):
		v.Buffer = rpcrdma2.Buffer{}
	}
	if v.ReceiveSize < LeastReceive || v.Buffer.Length > v.ReceiveSize {
		return errValues
	}
	if !c.keeps(&v) {
		return errFixed
	}
	c.Told, c.sized = v, c.sized || size
	c.wish.learn(wish, v.ReceiveSize, !c.stay.has(rpcrdma2.CharReceiveSize))
	return nil
}

// Requested processes a REQUEST with body info; see answer.
func (c *State) Requested(info, payload []byte) (r *rpcrdma2.Respond, lowered bool, err error) {
	var body rpcrdma2.Request
	if err := Decode(&body, info, payload); err != nil {
		return nil, false, err
	}
	return c.answer(body.Want)
}

// answer answers a REQUEST. lowered means that new receives must have c.Target bytes from
// now on. Malformed data of a known characteristic is an error, and nothing changes.
func (c *State) answer(want rpcrdma2.Set) (r *rpcrdma2.Respond, lowered bool, err error) {
	var asked rpcrdma2.Values
	for _, is := range want {
		if _, err := asked.Set(is); err != nil {
			return nil, false, err
		}
	}
	r = &rpcrdma2.Respond{}
	for i, is := range want {
		known, _ := asked.Set(is)
		if is.ID == rpcrdma2.CharReceiveSize && asked.ReceiveSize < c.Known.ReceiveSize {
			lowered = c.lower(asked.ReceiveSize) || lowered
		}
		now := c.Known.Encode(is.ID)
		switch {
		case known && bytes.Equal(asked.Encode(is.ID).Data, now.Data):
			r.Done = r.Done.Add(i)
		case lowered && is.ID == rpcrdma2.CharReceiveSize:
			r.Other = append(r.Other, now)
			r.Rejected = r.Rejected.Add(i)
		default:
			r.Rejected = r.Rejected.Add(i)
		}
	}
	if c.Peer == Unknown && c.keep > c.Known.ReceiveSize { // an UPDATE would come too late for a Send of that size
		r.Other = append(r.Other, sizeOf(c.keep))
	}
	return r, lowered, nil
}

// lower lowers the receive size to asked, but not below what our settings want. The peer
// makes no longer Send from then on.
func (c *State) lower(asked uint32) bool {
	size := max(asked, c.wish.own)
	c.wish.asked(asked, size == asked && c.cfg.On)
	if !c.cfg.On || size >= c.Known.ReceiveSize {
		return false
	}
	c.Receive, c.Target, c.below, c.pings = size, size, 0, 0
	c.derive()
	c.Known.ReceiveSize, c.Known.Buffer = size, rpcrdma2.Buffer{}
	return true
}

// Responded processes the answer to our REQUEST. A bit in both subsets or in none means
// that the request was rejected. Characteristics that have another value now than the one
// asked for are in Other, whichever they are. If one of them is malformed, none counts.
func (c *State) Responded(r *rpcrdma2.Respond) {
	asked := c.request.size
	c.Answered()
	if asked != 0 && r.Done.Has(0) && !r.Rejected.Has(0) {
		c.Told.ReceiveSize, c.Told.Buffer, c.sized = asked, rpcrdma2.Buffer{}, true
	}
	_ = c.Learn(r.Other)
}

// Asks reports whether our open REQUEST or INIT has this XID.
func (c *State) Asks(xid uint32) bool { return c.request.open && c.request.xid == xid }

// Answered records that our REQUEST or INIT was answered, whatever the answer.
func (c *State) Answered() {
	if c.request.acks {
		c.unacked = false
		c.wish.acknowledged(c.Known.ReceiveSize)
	}
	c.request.open, c.request.size, c.request.acks = false, 0, false
}

// Refused records that the peer answered our REQUEST or INIT with an error.
func (c *State) Refused(code rpcrdma1.ErrCode) {
	c.Answered()
	switch {
	case c.Peer == Unknown:
		c.Peer = Unsupported
	case code == rpcrdma2.ErrInvalOption:
		c.silent = true
	}
}

// Info holds the known characteristics of both ends.
type Info struct {
	// Spoken means that the peer has the extension. Otherwise Peer holds the defaults.
	Spoken bool
	// Own are ours as announced to the peer.
	Own, Peer rpcrdma2.Values
	// Asks means that the peer knows the receive wish: it asks for smaller receives when we
	// want them. Lacks means that it does not have the extension on this connection.
	Asks, Lacks bool
}

// Info returns the characteristics of both ends.
func (c *State) Info() Info {
	return Info{
		Spoken: c.Peer == Supported, Own: c.Known, Peer: c.Told,
		Asks: c.wish.told != 0, Lacks: c.Peer == Unsupported,
	}
}
