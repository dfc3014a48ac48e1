package characteristics

import (
	"bytes"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Fixed characteristics do not change while the connection lives. An INIT lists them in its
// nochg field.

// fixed is a set of characteristics, as bits.
type fixed uint32

func (f fixed) has(id rpcrdma2.CharID) bool { return id < 32 && f>>id&1 != 0 }

// fixes reports whether a characteristic of ours never changes, whatever the settings are.
// Invalidation needs memory windows, and calls in the reverse direction need a handler. A
// responder has neither characteristic.
func (c *State) fixes(id rpcrdma2.CharID) bool {
	switch id {
	case rpcrdma2.CharInvalidation:
		return !c.Requester || !c.Revocable
	case rpcrdma2.CharBackward:
		return !c.Requester || !c.Serves
	}
	return false
}

// Init returns our INIT.
func (c *State) Init() *rpcrdma2.Init {
	o := &rpcrdma2.Init{Start: c.changed(true, true)}
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		if c.fixes(id) && !o.Start.Has(id) {
			o.Start = append(o.Start, c.Own.Encode(id))
		}
	}
	for i, is := range o.Start {
		if c.fixes(is.ID) {
			o.NoChange = o.NoChange.Add(i)
		}
	}
	return o
}

// Begun applies the peer's INIT: all of it or, with an error, nothing.
func (c *State) Begun(o *rpcrdma2.Init) error {
	if !o.NoChange.Within(len(o.Start)) {
		return errValues
	}
	if err := c.Learn(o.Start); err != nil {
		return err
	}
	for i, is := range o.Start {
		if o.NoChange.Has(i) && is.ID < 32 {
			c.stay |= 1 << is.ID
		}
	}
	c.wish.ask = c.wish.ask && !c.stay.has(rpcrdma2.CharReceiveSize)
	return nil
}

// keeps reports whether v leaves the peer's fixed characteristics unchanged.
func (c *State) keeps(v *rpcrdma2.Values) bool {
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		if c.stay.has(id) && !bytes.Equal(v.Encode(id).Data, c.Told.Encode(id).Data) {
			return false
		}
	}
	return true
}
