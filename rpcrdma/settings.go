package rpcrdma

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs"
)

// Settings are the live settings of one connection.
type Settings = conn.Settings

// Extensions is a set of protocol extensions, all off by default.
type Extensions = conn.Extensions

// The extensions: those of RFC 5666 that RFC 8166 left out, RFC 8167, and
// version 2: where both ends speak it, or alone.
const (
	ExtMSGP        = conn.ExtMSGP
	ExtReadReplies = conn.ExtReadReplies
	ExtCCP         = conn.ExtCCP
	ExtBackchannel = conn.ExtBackchannel
	ExtV2          = conn.ExtV2
	ExtV2Only      = conn.ExtV2Only
	// Extensions of version 2.
	ExtCharacteristics = conn.ExtCharacteristics
	ExtXmit            = conn.ExtXmit
	ExtContinuation    = conn.ExtContinuation
	ExtSendDDP         = conn.ExtSendDDP
)

// CreditsPolicy says how grants are chosen.
type CreditsPolicy = conn.CreditsPolicy

// The policies: always credits.max, or by load.
const (
	CreditsFixed    = conn.CreditsFixed
	CreditsAdaptive = conn.CreditsAdaptive
)

// Placement is what is asked for large results of calls, where items are placed by
// Sends.
type Placement = conn.Placement

// The placements: written by the peer, sent where the largest fit, as the peer
// chooses, and sent as far as they fit.
const (
	PlaceWritten = conn.PlaceWritten
	PlaceSent    = conn.PlaceSent
	PlaceChosen  = conn.PlaceChosen
	PlaceBySize  = conn.PlaceBySize
)

// ErrNoMemory is Accept's when there is not enough registered memory for the
// connection's first receives.
var ErrNoMemory = transport.ErrNoMemory

// Why a call failed that was not sent.
var (
	ErrClosed   = transport.ErrClosed
	ErrDraining = transport.ErrDraining
	// ErrNoBackchannel means that calls to the client are not on, or that the
	// back channel was not opened in time.
	ErrNoBackchannel = transport.ErrNoBackchannel
	// ErrCallTooLong means that a call or its largest reply is too long: for
	// calls to a client, longer than one Send.
	ErrCallTooLong = conn.ErrCallTooLong
	// ErrTooManyCalls means that too many calls wait already.
	ErrTooManyCalls = conn.ErrTooManyCalls
	// ErrUnsettled means that settings or the peer's limits changed again and
	// again between the plan of a call and its sending. It was never sent.
	ErrUnsettled = conn.ErrUnsettled
	// ErrTooManyLosses means that a call was with as many connections that were
	// lost as one call may be (maxLosses).
	ErrTooManyLosses = errors.New("rpcrdma: too many connections were lost under the call")
	// ErrXIDInUse means that a call in flight has the XID that the caller gave.
	ErrXIDInUse = conn.ErrXIDInUse
)

// Why a reply was refused, or its connection given up.
var (
	// ErrBadReply means that a reply is malformed or does not fit its call.
	ErrBadReply = conn.ErrBadReply
	// ErrInvalidated means that the peer invalidated memory of another call.
	ErrInvalidated = conn.ErrInvalidated
	// ErrNoVersion means that the peer speaks no version that the settings
	// allow, ErrNotAgreed that it did not answer a first message of version 2.
	ErrNoVersion = conn.ErrNoVersion
	ErrNotAgreed = transport.ErrNotAgreed
)

// DefaultSettings are the values in force when nobody set anything.
func DefaultSettings() Settings { return conn.DefaultSettings() }

// InlineMin is the size, in bytes, of a Send that every peer takes (RFC 8166
// §3.3.2).
const InlineMin = conn.InlineMin

// MaxMessage is the most bytes of one RPC message that travels in chunks.
const MaxMessage = conn.MaxMessage

// Stats count what a connection did. They only grow.
type Stats = transport.Stats

// Sizes are the sizes of a connection's RPC messages, by powers of two.
type Sizes = transport.Sizes

// SizeCounts counts sizes by powers of two.
type SizeCounts = transport.SizeCounts

// SizeBuckets is the number of buckets of a SizeCounts.
const SizeBuckets = transport.SizeBuckets

// MemoryStats are numbers of registered memory, in bytes.
type MemoryStats = regmem.Stats

// MinMemoryLimit is the least registered memory that a listener can do with.
const MinMemoryLimit = regmem.MinLimit

// The parts of a listener's memory, as ratios, that receives may take, and that
// receives and the small buffers of replies may take together.
const (
	ReceiveShare = regmem.ReceiveShare
	SmallShare   = regmem.SmallShare
)

// Load is what a connection did lately, and the memory that its credits take.
type Load = transport.Load

// Error is the end of a connection, with both addresses and the reason.
type Error = transport.Error

// Info is what is in force on a connection now.
type Info struct {
	Local, Peer netip.AddrPort
	Provider    string
	// RPCVersion is that of RPC-over-RDMA. With extensions.v2 it is settled by
	// the first call that is answered.
	RPCVersion int
	// VersionAgreed: it is, and stays, for the connection's life.
	VersionAgreed bool
	// InlineSend is the most of one Send that we make, InlineReceive of one
	// that we take.
	InlineSend, InlineReceive uint32
	// PeerReceive bounds InlineSend while the connection lives: the smaller of
	// what the peer takes in one Send and of what it was told that we make.
	// PeerReceiveSize is the former alone, which bounds the next connection.
	PeerReceive, PeerReceiveSize uint32
	// PeerSendSize is the most that the peer said at connect that it sends.
	PeerSendSize   uint32
	CreditsGranted uint32
	// RemoteInvalidation: both sides agreed at connect, and its use is on.
	RemoteInvalidation bool
	// PeerRemoteInvalidation: the peer said at connect that its STags may be
	// invalidated, and the device can do so.
	PeerRemoteInvalidation bool
	// Device is the name of the device. NoWindows: it has no memory windows, so
	// that no peer can invalidate ours. NoSendInvalidate: it can't invalidate the
	// peer's.
	Device                      string
	NoWindows, NoSendInvalidate bool
	Since                       time.Time
	// Connects is the number of connections that were made: 1, more for a
	// client that reconnects.
	Connects uint64
	// ConnectTime is how long the connecting took, LastActive when the
	// connection last did something.
	ConnectTime time.Duration
	LastActive  time.Time
	// Padding is what extensions.msgp does here, Configuration what the peer
	// told through the Connection Configuration Protocol (extensions.ccp).
	Padding       Padding
	Configuration Configuration
	// Backchannel is the state of calls from server to client
	// (extensions.backchannel).
	Backchannel BackchannelState
	// Characteristics are what both sides told each other
	// (extensions.characteristics).
	Characteristics Characteristics
}

// Inline are the most bytes of an RPC message that goes out without chunks, and
// of one that comes so. Messages on the back channel never have chunks.
func (i *Info) Inline() (send, receive uint32) {
	header := conn.EmptyHeader(i.RPCVersion)
	return i.InlineSend - header, i.InlineReceive - header
}

// Characteristics are what both sides of a connection of version 2 told each
// other of themselves.
type Characteristics = conn.Characteristics

// BackchannelState is the state of calls from server to client: whether they
// can be made now, and the grant in force.
type BackchannelState = transport.Backchannel

// Padding is the use of padded messages on a connection (RDMA_MSGP).
type Padding = conn.Padding

// Configuration is what a peer told through the Connection Configuration
// Protocol.
type Configuration = conn.Configuration

// tellable is the size that private data can say: settings are in bytes,
// private data in KiB.
func tellable(n uint32) uint32 {
	return min(max(n, wire.MinSize), wire.MaxSize) / wire.SizeUnit * wire.SizeUnit
}

// privateData is what we tell the peer at connect (RFC 8797).
func privateData(s *Settings, accepts bool) wire.PrivateData {
	return wire.PrivateData{
		RemoteInvalidation: accepts,
		SendSize:           tellable(s.InlineSendMax),
		ReceiveSize:        tellable(s.Receives()),
	}
}

// maxReads is the number of RDMA Reads that we offer or ask for at once; what
// a kernel client offers.
const maxReads = 128

func depth(limit int) int { return min(maxReads, limit) }

func readsIn(d verbs.Device) int  { return depth(d.Attr().MaxQPRdAtom) }
func readsOut(d verbs.Device) int { return depth(d.Attr().MaxQPInitRdAtom) }

// initiates is the number of RDMA Reads that a client asks to have out at once:
// none, unless it may be answered by replies that it reads.
func initiates(s *Settings, d verbs.Device) int {
	if s.Extensions.Has(conn.ExtReadReplies) {
		return readsOut(d)
	}
	return 0
}

// PeerError is an RPC-over-RDMA error that answered a call.
type PeerError = conn.PeerError

// setDevice tells what the device is and can't do.
func (i *Info) setDevice(d verbs.Device) {
	a := d.Attr()
	i.Device, i.NoWindows, i.NoSendInvalidate = a.Name, !a.MemWindowType2B, !a.SendInvalidate
}
