package conn

import (
	"bytes"
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Transport characteristics of version 2: what each side tells the other with
// INIT, REQUEST, RESPOND and UPDATE, and what they keep to because of it. Those
// of a connection are its forward direction's roles'.
//
// Receives. A message of these operations finds one of credit.Slack at its
// receiver: a requester's INIT and REQUEST take a credit, whose receive their
// answer finds; of all else there is at most one UPDATE and one REQUEST or
// RESPOND that is not known to have arrived. What shows that an UPDATE has
// arrived is the answer to a later REQUEST, of nothing if need be.

var (
	// errLateInit means that an INIT is not its sender's first message.
	errLateInit = errors.New("conn: INIT is not the first message")
	// errBehind means that something follows an operation that has no payload.
	errBehind = errors.New("conn: bytes behind an operation without payload")
)

// maxTold bounds the operations that one event leads to: an UPDATE and a REQUEST.
const maxTold = 2

// transmissionLimit bounds the transmissions of one group with
// extensions.continuation on: those of a request that we take and those of a
// response that we make.
const transmissionLimit = 8

// charReceiveWish is a characteristic of the range for experiments: u32, the
// receive size in bytes that the sender's settings want. A peer that knows it
// asks for that size when it is below Receive Buffer Size, as nobody may lower
// that unasked.
const charReceiveWish = rpcrdma2.CharExperimentalLow + 0x52

// characteristics are those that settings and receives of so many bytes make.
func (s *Settings) characteristics(receive uint32) rpcrdma2.Values {
	v := rpcrdma2.DefaultValues()
	v.ReceiveSize = receive
	if s.Extensions.Has(ExtXmit) {
		v.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse
	}
	if s.Extensions.Has(ExtContinuation) {
		v.RTR |= rpcrdma2.RTRContinue
		v.RequestReceive, v.ResponseSend = transmissionLimit, transmissionLimit
	}
	return v
}

// support is what is known of a peer's having the extension.
type support uint8

const (
	supportUnknown support = iota
	supported
	unsupported // for as long as the connection lives
)

// characteristics is the part of a role that tells and is told. Sizes are in
// bytes.
type characteristics struct {
	// told are the peer's; own are ours, as the settings and the receives that
	// are posted make them; known are ours as the peer was told.
	told, own, known rpcrdma2.Values
	targets          targets
	peer             support
	stay             fixed // of the peer's
	silent           bool  // the peer has turned the extension off
	sized            bool  // the peer told its receive size
	on               bool  // extensions.characteristics
	settings         Settings
	// A requester; its device can take STags back, and there is somebody to
	// answer calls of its responder.
	requester, revocable, serves bool

	// Every receive that is posted has at least receive bytes, as far as the
	// peer may count on it; target is the size of new ones, which below of all
	// don't have. pings is how many REQUESTs may yet be made to have
	// the peer use them up.
	receive, target uint32
	below, pings    int

	// wish is the receive size that our settings want, knownWish as the peer
	// was told, toldWish the peer's; 0 when it knows nothing of that. ask is
	// set when the peer is to be asked for toldWish.
	wish, knownWish, toldWish uint32
	ask                       bool
	// floor is, when not 0, a wish that the peer may be about to ask for, even if
	// it was told of another since.
	floor uint32

	request struct { // of ours
		open bool
		xid  uint32
		size uint32 // asked for, and kept to since; 0 is nothing
		acks bool   // its answer shows that the last UPDATE has arrived
	}
	unacked bool // an UPDATE of ours may not have arrived
	unsent  int  // operations that are being sent
}

// start begins with receives of so many bytes and what settings make of them.
func (c *characteristics) start(s *Settings, receive uint32) {
	c.told, c.known = rpcrdma2.DefaultValues(), rpcrdma2.DefaultValues()
	c.receive, c.target = receive, receive
	c.targets.ownTargets = new(ownTargets)
	c.apply(s)
}

// apply takes settings. They may leave receives that are larger than wanted.
func (c *characteristics) apply(s *Settings) {
	c.settings, c.on = *s, s.Extensions.Has(ExtCharacteristics)
	c.wish = max(s.Receives(), rpcrdma2.DefaultReceiveSize)
	c.make()
}

// make makes our own of what they come from. Those of a requester alone are the
// defaults at a responder.
func (c *characteristics) make() {
	c.own = c.settings.characteristics(c.receive)
	c.targets.begin(c.receive)
	if c.settings.Extensions.Has(ExtSendDDP) {
		c.own.Buffer = c.targets.tell(c.receive)
	}
	if !c.requester {
		return
	}
	c.own.Invalidation = c.revocable && c.settings.RemoteInvalidationAccept
	if !c.serves || !c.settings.Backchannel() {
		c.own.Backward = rpcrdma2.BackwardNone
	}
}

// takes says whether operations are taken: those of a peer that has the extension
// or was asked for it even when it was turned off since.
func (c *characteristics) takes() bool { return c.on || c.peer == supported || c.request.open }

// peerReceive is the most of one Send that the peer takes; ok is false when it
// told nothing.
func (c *characteristics) peerReceive() (n uint32, ok bool) {
	if c.peer != supported {
		return 0, false
	}
	n = min(c.told.ReceiveSize, InlineMax)
	if c.request.size != 0 {
		n = min(n, c.request.size)
	}
	return n, true
}

// planned is the most of one Send of the peer to plan for: what it was told,
// or less where we want less and it knows how to ask.
func (c *characteristics) planned() uint32 {
	if c.peer != supported {
		return c.receive
	}
	n := c.known.ReceiveSize
	if c.toldWish != 0 {
		n = min(n, c.wish)
	}
	if c.floor != 0 {
		n = min(n, c.floor)
	}
	return n
}

// wishes gives the wish to tell, if the peer is to be told of another now. Of one
// that makes it ask it is told only when it has told of its own, as only then we
// plan for it.
func (c *characteristics) wishes(clear bool) (size uint32, tell bool) {
	size = c.wish
	if c.toldWish == 0 {
		size = max(size, c.known.ReceiveSize)
		return size, c.knownWish == 0
	}
	return size, size != c.knownWish && (clear || size >= c.known.ReceiveSize)
}

// wished notes that the peer is told of a wish.
func (c *characteristics) wished(size uint32) {
	if c.knownWish = size; size < c.known.ReceiveSize && (c.floor == 0 || size < c.floor) {
		c.floor = size
	}
}

// changed lists what the peer is to be told, and takes it for told if tell is
// set. clear says that no answer may come that is longer than our wish.
func (c *characteristics) changed(clear, tell bool) rpcrdma2.Set {
	var set rpcrdma2.Set
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		now := c.own.Encode(id)
		again := id == rpcrdma2.CharReceiveBuffer && len(now.Data) > 0 && c.own.ReceiveSize != c.known.ReceiveSize // rtrext §8.3
		if again || !bytes.Equal(now.Data, c.known.Encode(id).Data) {
			set = append(set, now)
		}
	}
	size, wish := c.wishes(clear)
	if wish {
		set = append(set, wishOf(size))
	}
	if tell && c.own.ReceiveSize > c.known.ReceiveSize && c.own.ReceiveSize > c.knownWish {
		c.knownWish = 0 // a lower one has to be told again: the peer looked at it already
	}
	if tell {
		c.known = c.own
	}
	if tell && wish {
		c.wished(size)
	}
	return set
}

func wishOf(size uint32) rpcrdma2.Characteristic {
	return rpcrdma2.Characteristic{ID: charReceiveWish, Data: xdr.AppendUint32(nil, size)}
}

// resize says that new receives have to be of c.target bytes from now on: larger
// ones, or as the peer knows them when larger ones are wanted no more.
func (c *characteristics) resize() bool {
	size := c.known.ReceiveSize
	if c.on {
		size = max(size, c.wish)
	}
	if c.peer != supported || size == c.target {
		return false
	}
	c.targets.begin(size)
	if c.target = size; size < c.receive {
		c.receive = size
		c.make()
	}
	return true
}

// posted is the event that below of all our receives are smaller than the last
// Resize asked for. They take messages in turn.
func (c *characteristics) posted(below, all int) {
	c.below, c.pings = below, all
	if below == 0 && c.target > c.receive {
		c.receive = c.target
		c.make()
	}
}

// next is the next operation to send, nil if there is none now. clear is as for
// changed; requests says whether a REQUEST may go.
func (c *characteristics) next(clear, requests bool) rpcrdma2.Body {
	if !c.on || c.peer != supported || c.silent {
		return nil
	}
	more := len(c.changed(clear, false)) > 0
	switch {
	case more && !c.unacked:
		c.unacked = true
		return &rpcrdma2.Update{Now: c.changed(clear, true)}
	case c.request.open || !requests:
		return nil
	case c.ask:
		c.ask = false
		if c.toldWish < c.told.ReceiveSize {
			size := max(c.toldWish, InlineMin)
			c.request.size = size
			return &rpcrdma2.Request{Want: rpcrdma2.Set{sizeOf(size)}}
		}
		return c.next(clear, requests)
	case more || c.floored():
		return &rpcrdma2.Request{}
	case c.below > 0 && c.pings > 0:
		c.pings--
		return &rpcrdma2.Request{}
	}
	return nil
}

func sizeOf(n uint32) rpcrdma2.Characteristic {
	v := rpcrdma2.Values{ReceiveSize: n}
	return v.Encode(rpcrdma2.CharReceiveSize)
}

// floored says that we plan for less than we want until it is known that the peer
// does not ask for it.
func (c *characteristics) floored() bool {
	return c.unacked && c.floor != 0 && c.floor < c.knownWish
}

// due says that there is something to send, now or when it may go.
func (c *characteristics) due() bool {
	return c.on && c.peer == supported && !c.silent &&
		(len(c.changed(true, false)) > 0 || c.ask || c.floored() || (c.below > 0 && c.pings > 0))
}

// requests notes that a Request goes out as xid.
func (c *characteristics) requests(xid uint32) {
	c.request.open, c.request.xid, c.request.acks = true, xid, c.unacked
}
