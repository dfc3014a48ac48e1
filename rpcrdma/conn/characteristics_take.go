package conn

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// errValues means that characteristics can't be what a peer says that they are.
var errValues = errors.New("conn: impossible characteristics")

// learn takes what the peer told, all of it or, with an error, nothing. What is
// unknown is skipped.
func (c *characteristics) learn(set rpcrdma2.Set) error {
	v, wish := c.told, uint32(0)
	var size, buffer bool
	for _, is := range set {
		switch is.ID {
		case rpcrdma2.CharReceiveSize:
			size = true
		case rpcrdma2.CharReceiveBuffer:
			buffer = true
		case charReceiveWish:
			if len(is.Data) == 4 {
				wish = binary.BigEndian.Uint32(is.Data)
			}
			continue
		}
		if _, err := v.Set(is); err != nil {
			return err
		}
	}
	switch {
	case buffer && !size && !c.sized && len(v.Buffer.Groups) > 0: // rtrext §8.3
		v.ReceiveSize = v.Buffer.Length
	case size && !buffer && !c.stay.has(rpcrdma2.CharReceiveBuffer):
		v.Buffer = rpcrdma2.Buffer{}
	}
	if v.ReceiveSize < InlineMin || v.Buffer.Length > v.ReceiveSize {
		return errValues
	}
	if !c.keeps(&v) {
		return errFixed
	}
	c.told, c.sized = v, c.sized || size
	if wish >= InlineMin {
		c.toldWish, c.ask = wish, wish < v.ReceiveSize && !c.stay.has(rpcrdma2.CharReceiveSize)
	}
	return nil
}

// requested takes a REQUEST; see answer.
func (c *characteristics) requested(h *Header, payload []byte) (r *rpcrdma2.Respond, lowered bool, err error) {
	var body rpcrdma2.Request
	if err := decodeAlone(&body, h, payload); err != nil {
		return nil, false, err
	}
	return c.answer(body.Want)
}

// answer answers a REQUEST. lowered says that new receives have to be of
// c.target bytes from now on. With malformed data of a characteristic that is
// known, nothing is done.
func (c *characteristics) answer(want rpcrdma2.Set) (r *rpcrdma2.Respond, lowered bool, err error) {
	var asked rpcrdma2.Values
	for _, is := range want {
		if _, err := asked.Set(is); err != nil {
			return nil, false, err
		}
	}
	r = &rpcrdma2.Respond{}
	for i, is := range want {
		known, _ := asked.Set(is)
		if is.ID == rpcrdma2.CharReceiveSize && asked.ReceiveSize < c.known.ReceiveSize {
			lowered = c.lower(asked.ReceiveSize) || lowered
		}
		now := c.known.Encode(is.ID)
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
	return r, lowered, nil
}

// lower lowers the receive size as far as our settings want it lower: the peer
// asks for asked bytes, and makes no longer Send since.
func (c *characteristics) lower(asked uint32) bool {
	size := max(asked, c.wish)
	if asked == c.knownWish && (size != asked || !c.on) {
		c.knownWish = 0 // it asks no more, unless it is told again
	}
	if !c.on || size >= c.known.ReceiveSize {
		return false
	}
	c.receive, c.target, c.below, c.pings = size, size, 0, 0
	c.make()
	c.known.ReceiveSize, c.known.Buffer = size, rpcrdma2.Buffer{}
	return true
}

// responded takes the answer to our REQUEST. A bit that is in both subsets or in
// none means that it was rejected, as is all of an answer that makes no sense.
func (c *characteristics) responded(r *rpcrdma2.Respond) {
	asked := c.request.size
	c.answered()
	if asked == 0 {
		return
	}
	if r.Done.Has(0) && !r.Rejected.Has(0) && r.Done.Within(1) && r.Rejected.Within(1) {
		c.told.ReceiveSize, c.told.Buffer = asked, rpcrdma2.Buffer{}
		return
	}
	for _, is := range r.Other {
		var v rpcrdma2.Values
		if _, err := v.Set(is); err == nil && is.ID == rpcrdma2.CharReceiveSize && v.ReceiveSize >= InlineMin {
			c.told.ReceiveSize, c.told.Buffer = v.ReceiveSize, rpcrdma2.Buffer{}
		}
	}
}

// asks says whether a REQUEST or INIT of ours has this XID.
func (c *characteristics) asks(xid uint32) bool { return c.request.open && c.request.xid == xid }

// answered notes that our REQUEST or INIT is answered, well or not.
func (c *characteristics) answered() {
	if c.request.acks {
		c.unacked = false
		if c.floor = 0; c.knownWish < c.known.ReceiveSize {
			c.floor = c.knownWish
		}
	}
	c.request.open, c.request.size, c.request.acks = false, 0, false
}

// refused notes that the peer answered our REQUEST or INIT with an error.
func (c *characteristics) refused(code rpcrdma1.ErrCode) {
	c.answered()
	switch {
	case c.peer == supportUnknown:
		c.peer = unsupported
	case code == rpcrdma2.ErrInvalOption:
		c.silent = true
	}
}

// Characteristics are what a role has of characteristics.
type Characteristics struct {
	// Spoken: the peer has the extension. Else Peer are the defaults.
	Spoken    bool
	Own, Peer rpcrdma2.Values
	// Asks: the peer asks for smaller receives once it is told that they are
	// wanted. Lacks: it does not have the extension, for as long as the
	// connection lives.
	Asks, Lacks bool
}

// state tells the peer's characteristics and ours, as it was told.
func (c *characteristics) state() Characteristics {
	return Characteristics{
		Spoken: c.peer == supported, Own: c.known, Peer: c.told,
		Asks: c.toldWish != 0, Lacks: c.peer == unsupported,
	}
}
