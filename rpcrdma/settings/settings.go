package settings

import (
	"math"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Settings are the live settings that apply to one connection, already
// resolved over the scopes. A value is immutable; a change is a new value,
// swapped in atomically between two events. Sizes are in bytes.
type Settings struct {
	// InlineSendMax bounds the Sends we make; what the peer receives bounds
	// them too.
	InlineSendMax uint32
	// InlineReceiveSize is the size of the receive buffers we post and
	// advertise. Version 1 fixes it at connect.
	InlineReceiveSize uint32
	// DDPMinChunk is the smallest DDP-eligible item moved by RDMA Read or
	// Write although the message would fit inline.
	DDPMinChunk uint32
	// RemoteInvalidationAccept advertises that the peer may invalidate our
	// STags; fixed at connect in version 1.
	RemoteInvalidationAccept bool
	// RemoteInvalidationUse lets replies go out as Send With Invalidate to
	// peers that accept it.
	RemoteInvalidationUse bool

	CreditsPolicy Policy
	CreditsMin    uint32
	CreditsMax    uint32
	// CreditsBackchannel is the most calls from server to client in flight: a
	// server makes no more, a client grants as many. With 0 there are none.
	CreditsBackchannel uint32
	// CreditsWeight is the connection's part of what the adaptive policy has
	// to give, against the weights of the others.
	CreditsWeight uint32

	// Placement is what is asked for results of calls where items are placed by
	// Sends.
	Placement Placement

	// Extensions are those that are turned on.
	Extensions Extensions

	// placeMin takes DDPMinChunk's place for items that go by Send, in the
	// reverse direction, where no others are apart. It is no setting.
	placeMin uint32
}

// Limits of the settings, in bytes and credits.
const (
	InlineMin      = 1024       // RFC 8166 §3.3.2: the default every peer must take
	InlineMax      = 256 * 1024 // what CM private data can say (RFC 8797 §4.1)
	CreditsLimit   = 1024       // most credits a connection may be granted
	ReverseLimit   = 256        // largest value of CreditsBackchannel
	DDPMinChunkMax = 1 << 20    // largest value of DDPMinChunk
	WeightLimit    = 100        // largest value of CreditsWeight
)

// Default are the values in force when nobody set anything.
func Default() Settings {
	var s Settings
	for i := range rows {
		rows[i].field.set(&s, rows[i].Default)
	}
	return s
}

// Extensions is a set of protocol extensions.
type Extensions uint16

// The extensions, by their dotted names.
const (
	ExtMSGP        Extensions = 1 << iota // extensions.msgp: RDMA_MSGP (RFC 5666 §3.9)
	ExtReadReplies                        // extensions.read_replies: replies that the requester reads, and DONE (RFC 5666 §3.8)
	ExtCCP                                // extensions.ccp: Connection Configuration Protocol (RFC 5666 §6)
	ExtBackchannel                        // extensions.backchannel: calls from server to client (RFC 8167)
	ExtV2                                 // extensions.v2: version 2, where the peer speaks it
	ExtV2Only                             // extensions.v2=required: version 2 alone
	// Extensions of version 2.
	ExtCharacteristics // extensions.characteristics: transport characteristics, told and changed on the connection
	ExtXmit            // extensions.xmit: XMTREQ and XMTRESP (rtrext)
	ExtContinuation    // extensions.continuation: messages over several Sends
	ExtSendDDP         // extensions.send_ddp: items placed by Sends
)

// Has says whether all of e are in the set.
func (s Extensions) Has(e Extensions) bool { return s&e == e }

// Policy says how grants are chosen between CreditsMin and CreditsMax.
type Policy uint8

// The policies.
const (
	CreditsFixed    Policy = iota // always CreditsMax
	CreditsAdaptive               // by load
)

// Placement is what a requester asks for large results of its calls when items
// are placed by Sends (extensions.send_ddp).
type Placement uint8

// The placements.
const (
	// PlaceWritten is exrw: the peer writes them.
	PlaceWritten Placement = iota
	// PlaceSent is tbsn: they come in Sends, into target segments, where the
	// largest that they may be fit; else the peer writes them.
	PlaceSent
	// PlaceChosen is choice: the peer does the one or the other.
	PlaceChosen
	// PlaceBySize is bysize: as PlaceSent, but where the largest do not all fit,
	// the peer writes those that turn out larger than what fits.
	PlaceBySize
)

// Speaks says whether a connection may begin with a version of RPC-over-RDMA.
func (s *Settings) Speaks(version int) bool {
	if version == rpcrdma2.Version {
		return s.Extensions&(ExtV2|ExtV2Only) != 0
	}
	return !s.Extensions.Has(ExtV2Only)
}

// Receives is the size of the receive buffers to post, in bytes: version 2 asks
// for at least 4096 of everybody.
func (s *Settings) Receives() uint32 {
	if s.Speaks(rpcrdma2.Version) {
		return max(s.InlineReceiveSize, rpcrdma2.DefaultReceiveSize)
	}
	return s.InlineReceiveSize
}

// Backchannel says whether there are to be calls from server to client.
func (s *Settings) Backchannel() bool {
	return s.Extensions.Has(ExtBackchannel) && s.CreditsBackchannel > 0
}

// Reverse are the settings of the roles of the reverse direction: those of the
// connection, but for credits, and without what is not for inline messages.
func (s *Settings) Reverse() Settings {
	r := *s
	r.CreditsPolicy, r.CreditsMin = CreditsFixed, 1
	r.CreditsMax = min(max(s.CreditsBackchannel, 1), ReverseLimit)
	r.DDPMinChunk, r.placeMin = math.MaxInt32, max(s.DDPMinChunk, 1)
	r.Placement = PlaceSent
	r.Extensions &= ExtXmit | ExtContinuation | ExtSendDDP | ExtV2 | ExtV2Only
	return r
}

// LeastPlaced is the least length of an item that goes by Send, in bytes.
func (s *Settings) LeastPlaced() int {
	if s.placeMin > 0 {
		return int(s.placeMin)
	}
	return max(int(s.DDPMinChunk), 1)
}
