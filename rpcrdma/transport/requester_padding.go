package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// zeroPad is the padding of calls. Memory of the pool has been used before:
// padding is written, or the peer would see what was there.
var zeroPad [conn.MaxPadAlign]byte

// pad appends the padding before an item of n bytes to the call message at
// headRoom of dst's memory.
func (p *pending) pad(dst []byte, n int) []byte {
	return append(dst, zeroPad[:p.out.Pad.Before(len(dst), n)]...)
}

// errPadded: a reply has padding before what it was not said where to find.
var errPadded = fmt.Errorf("%w: padding that the call can't find", conn.ErrBadReply)

// unpad takes the padding out of c.Reply, which stood header bytes into the
// message that pad is of, and of which the results begin at body.
func (c *RPC) unpad(pad oncrpc.Padding, header, body int) error {
	if pad.Align == 0 {
		return nil
	}
	pad.Base += uint32(header)
	if len(c.Results) == 0 {
		return c.refuse()
	}
	last := body
	for i := range c.Results {
		r := &c.Results[i]
		if r.Find == nil {
			return c.refuse()
		}
		at := r.Find(c.Reply[body:])
		if at < 0 || r.Apart > 0 {
			continue
		}
		at += body
		start := at + xdr.Unit
		if at < last || start > len(c.Reply) {
			return c.refuse()
		}
		n := binary.BigEndian.Uint32(c.Reply[at:])
		if n > uint32(len(c.Reply)-start) {
			return c.refuse()
		}
		skip := pad.Before(start, int(n))
		if skip > len(c.Reply)-start-int(n) {
			return c.refuse()
		}
		c.Reply = append(c.Reply[:start], c.Reply[start+skip:]...)
		pad.Base += uint32(skip) // what follows stands further on in the Send
		last = start + int(n)
	}
	return nil
}

// refuse shows nothing of a reply that can't be taken apart.
func (c *RPC) refuse() error {
	c.Reply = c.Reply[:0]
	return errPadded
}
