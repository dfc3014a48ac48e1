package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// errPadded means that a reply has padding where the call cannot find it.
var errPadded = fmt.Errorf("%w: padding at an unknown place", conn.ErrBadReply)

// unpad removes the padding from c.Reply. pad describes the padding of a message in which
// c.Reply began at byte header. The results begin at body.
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
		pad.Base += uint32(skip) // the rest of the stream is further back in the Send
		last = start + int(n)
	}
	return nil
}

// refuse clears a reply that cannot be decoded.
func (c *RPC) refuse() error {
	c.Reply = c.Reply[:0]
	return errPadded
}
