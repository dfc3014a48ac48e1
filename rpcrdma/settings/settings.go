package settings

import (
	"math"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Settings are the live settings of one connection, already resolved over the scopes. A
// value is immutable. A change is a new value, swapped in atomically between two events.
// Sizes are in bytes.
type Settings struct {
	// InlineSendMax limits the Sends that we make. The size that the peer receives limits
	// them, too.
	InlineSendMax uint32
	// InlineReceiveSize is the size of the receive buffers that we post and advertise.
	// Version 1 fixes it at connect.
	InlineReceiveSize uint32
	// DDPMinChunk is the smallest DDP-eligible item that moves by RDMA Read or Write
	// although the message would fit inline.
	DDPMinChunk uint32
	// RemoteInvalidationAccept advertises that the peer may invalidate our STags. Version 1
	// fixes it at connect.
	RemoteInvalidationAccept bool
	// RemoteInvalidationUse sends replies with Send With Invalidate to peers that accept
	// it.
	RemoteInvalidationUse bool

	CreditsPolicy Policy
	CreditsMin    uint32
	CreditsMax    uint32
	// CreditsBackchannel limits the calls from server to client in flight: a server
	// makes no more, and a client grants that many. 0 means no such calls.
	CreditsBackchannel uint32
	// CreditsWeight is the connection's weight when memory and turns at a processor are divided,
	// and credits by the adaptive policy.
	CreditsWeight uint32

	// Placement selects how calls ask for large results when Sends place items.
	Placement Placement

	// Extensions is the set of extensions that are on.
	Extensions Extensions

	// placeMin replaces DDPMinChunk for items that go by Send in the reverse direction,
	// which has no other separate items. It is not a setting.
	placeMin uint32
}

// Limits of the settings, in bytes and credits.
const (
	InlineMin      = 1024       // RFC 8166 §3.3.2: the default that every peer must take
	InlineMax      = 256 * 1024 // the largest size that CM private data can express (RFC 8797 §4.1)
	CreditsLimit   = 1024       // most credits a connection may be granted
	ReverseLimit   = 256        // largest value of CreditsBackchannel
	DDPMinChunkMax = 1 << 20    // largest value of DDPMinChunk
	WeightLimit    = 100        // largest value of CreditsWeight
)

// Default returns the values that hold when nothing is set.
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
	ExtV2                                 // extensions.v2: version 2, if the peer speaks it
	ExtV2Only                             // extensions.v2=required: only version 2
	// Extensions of version 2.
	ExtCharacteristics // extensions.characteristics: transport characteristics, announced and changed on the connection
	ExtXmit            // extensions.xmit: XMTREQ and XMTRESP (rtrext)
	ExtContinuation    // extensions.continuation: messages over several Sends
	ExtSendDDP         // extensions.send_ddp: items placed by Sends
)

// Has reports whether all of e are in the set.
func (s Extensions) Has(e Extensions) bool { return s&e == e }

// Policy selects how grants are chosen between CreditsMin and CreditsMax.
type Policy uint8

// The policies.
const (
	CreditsFixed    Policy = iota // always CreditsMax
	CreditsAdaptive               // by load
)

// Placement selects how a requester asks for large results of its calls when Sends place items
// (extensions.send_ddp).
type Placement uint8

// The placements.
const (
	// PlaceWritten is exrw: the peer writes the results.
	PlaceWritten Placement = iota
	// PlaceSent is tbsn: results come in Sends, into target segments, if the largest
	// possible results fit. Otherwise the peer writes them.
	PlaceSent
	// PlaceChosen is choice: the peer chooses one or the other.
	PlaceChosen
	// PlaceBySize is bysize: like PlaceSent, but if the largest possible results do not all
	// fit, the peer writes those that turn out larger than what fits.
	PlaceBySize
)

// Speaks reports whether a connection may begin with a version of RPC-over-RDMA.
func (s *Settings) Speaks(version int) bool {
	if version == rpcrdma2.Version {
		return s.Extensions&(ExtV2|ExtV2Only) != 0
	}
	return !s.Extensions.Has(ExtV2Only)
}

// Receives returns the size of the receive buffers to post, in bytes. Version 2 requires at
// least 4096.
func (s *Settings) Receives() uint32 {
	if s.Speaks(rpcrdma2.Version) {
		return max(s.InlineReceiveSize, rpcrdma2.DefaultReceiveSize)
	}
	return s.InlineReceiveSize
}

// Backchannel reports whether calls from server to client are on.
func (s *Settings) Backchannel() bool {
	return s.Extensions.Has(ExtBackchannel) && s.CreditsBackchannel > 0
}

// Reverse returns the settings of the roles of the reverse direction: those of the
// connection, with their own credits, and without settings that do not apply to inline
// messages.
func (s *Settings) Reverse() Settings {
	r := *s
	r.CreditsPolicy, r.CreditsMin = CreditsFixed, 1
	r.CreditsMax = min(max(s.CreditsBackchannel, 1), ReverseLimit)
	r.DDPMinChunk, r.placeMin = math.MaxInt32, max(s.DDPMinChunk, 1)
	r.Placement = PlaceSent
	r.Extensions &= ExtXmit | ExtContinuation | ExtSendDDP | ExtV2 | ExtV2Only
	return r
}

// LeastPlaced returns the length of the smallest item that goes by Send, in bytes.
func (s *Settings) LeastPlaced() int {
	if s.placeMin > 0 {
		return int(s.placeMin)
	}
	return max(int(s.DDPMinChunk), 1)
}
