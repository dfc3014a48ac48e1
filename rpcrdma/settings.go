package rpcrdma

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs"
)

// Settings are the live settings of one connection.
type Settings = settings.Settings

// Extensions is a set of protocol extensions, all off by default.
type Extensions = settings.Extensions

// The extensions: parts of RFC 5666 that RFC 8166 left out, RFC 8167, and version 2, either
// where both ends speak it or alone.
const (
	ExtMSGP        = settings.ExtMSGP
	ExtReadReplies = settings.ExtReadReplies
	ExtCCP         = settings.ExtCCP
	ExtBackchannel = settings.ExtBackchannel
	ExtV2          = settings.ExtV2
	ExtV2Only      = settings.ExtV2Only
	// Extensions of version 2.
	ExtCharacteristics = settings.ExtCharacteristics
	ExtXmit            = settings.ExtXmit
	ExtContinuation    = settings.ExtContinuation
	ExtSendDDP         = settings.ExtSendDDP
)

// CreditsPolicy selects how grants are chosen.
type CreditsPolicy = settings.Policy

// The credit policies: always credits.max, or by load.
const (
	CreditsFixed    = settings.CreditsFixed
	CreditsAdaptive = settings.CreditsAdaptive
)

// Placement selects how a requester asks for large results of its calls when Sends place items.
type Placement = settings.Placement

// The placements: the peer writes the results, sends them where the largest fit, chooses,
// or sends them as far as they fit.
const (
	PlaceWritten = settings.PlaceWritten
	PlaceSent    = settings.PlaceSent
	PlaceChosen  = settings.PlaceChosen
	PlaceBySize  = settings.PlaceBySize
)

// ErrNoMemory is returned by Accept when there is not enough registered memory for the
// connection's first receives.
var ErrNoMemory = transport.ErrNoMemory

// Errors of calls that were not sent.
var (
	ErrClosed   = transport.ErrClosed
	ErrDraining = transport.ErrDraining
	// ErrNoBackchannel means that calls to the client are off, or that the back channel was
	// not opened in time.
	ErrNoBackchannel = transport.ErrNoBackchannel
	// ErrCallTooLong means that a call or its largest reply is too long. For calls to a
	// client, that means longer than one Send.
	ErrCallTooLong = conn.ErrCallTooLong
	// ErrTooManyCalls means that too many calls wait already.
	ErrTooManyCalls = conn.ErrTooManyCalls
	// ErrUnsettled means that settings or the peer's limits kept changing between the plan
	// of a call and its sending. The call was never sent.
	ErrUnsettled = conn.ErrUnsettled
	// ErrInvalidCall means that fields of a call contradict each other: for example, a buffer
	// is smaller than its result.
	ErrInvalidCall = transport.ErrInvalidCall
	// ErrNoReads means that the server would have to read a part of the call, and announced
	// that it makes no RDMA Reads.
	ErrNoReads = conn.ErrNoReads
	// ErrXIDInUse means that a call in flight already has the XID that the caller chose.
	ErrXIDInUse = conn.ErrXIDInUse
)

// ErrTooManyLosses means that maxLosses connections were lost during the call. The server may
// have carried it out.
var ErrTooManyLosses = errors.New("rpcrdma: too many connections were lost during the call")

// ErrTooLarge is returned by Alloc for a buffer that is larger than the largest one, which has
// MaxMessage bytes or a little more. A call that needs more memory than the client's limit
// allows fails with it, too.
var ErrTooLarge = regmem.ErrTooLarge

// Why a reply was refused, or a connection ended.
var (
	// ErrBadReply means that a reply is malformed or does not fit its call.
	ErrBadReply = conn.ErrBadReply
	// ErrInvalidated means that the peer invalidated memory of another call.
	ErrInvalidated = conn.ErrInvalidated
	// ErrNoVersion means that the peer speaks no version that the settings allow.
	// ErrNotAgreed means that it did not answer a first message of version 2.
	ErrNoVersion = conn.ErrNoVersion
	ErrNotAgreed = transport.ErrNotAgreed
)

// DefaultSettings returns the values that hold when nothing is set.
func DefaultSettings() Settings { return settings.Default() }

// InlineMin is the size, in bytes, of a Send that every peer takes (RFC 8166
// §3.3.2).
const InlineMin = settings.InlineMin

// MaxMessage is the largest RPC message in chunks, in bytes.
const MaxMessage = conn.MaxMessage

// Stats are the counters of a connection. They only grow.
type Stats = transport.Stats

// Sizes are the sizes of a connection's RPC messages, by powers of two.
type Sizes = transport.Sizes

// SizeCounts counts sizes by powers of two.
type SizeCounts = transport.SizeCounts

// SizeBuckets is the number of buckets of a SizeCounts.
const SizeBuckets = transport.SizeBuckets

// MemoryStats are statistics of registered memory, in bytes.
type MemoryStats = regmem.Stats

// Reserve is memory that the process keeps for clients. Close it after them.
type Reserve = regmem.Reserve

// NewReserve makes a reserve: one call of one client is always possible, whatever others hold of the memory of the
// process (verbs/offheap.Keep has the exceptions). Its items and results must be in memory of Alloc.
func NewReserve() *Reserve { return regmem.NewCallReserve() }

// MinMemoryLimit is the smallest limit of registered memory for a listener or a client, in
// bytes. Smaller limits are raised to it.
const MinMemoryLimit = regmem.MinLimit

// The parts of a listener's memory that receives may take, and that receives and small
// buffers of replies may take together.
const (
	ReceiveShare = regmem.ReceiveShare
	SmallShare   = regmem.SmallShare
)

// Load is the recent work of a connection, and the memory that its credits need.
type Load = transport.Load

// SlowCalls finds the calls that a connection answers slowly.
type SlowCalls = slow.Calls

// SlowCall is a call that was answered slowly.
type SlowCall = slow.Call

// Error reports why a connection ended, with both addresses.
type Error = transport.Error

// State has the values that change during a connection's life.
type State = transport.State

// Info is the current state of a connection. Sizes are in bytes.
type Info struct {
	State
	Local, Peer netip.AddrPort
	Provider    string
	// PeerReceiveSize is the largest Send that the peer takes. It bounds the next
	// connection.
	PeerReceiveSize uint32
	// PeerSendSize is the largest Send that the peer announced at connect to make.
	PeerSendSize uint32
	// PeerRemoteInvalidation means that the peer announced at connect that its STags may be
	// invalidated, and that the device can do so.
	PeerRemoteInvalidation bool
	// Device is the name of the device. NoWindows means that it has no memory windows, so
	// no peer can invalidate our memory. NoSendInvalidate means that it cannot invalidate
	// the peer's.
	Device                      string
	NoWindows, NoSendInvalidate bool
	Since                       time.Time
	// Connects is the number of connections made: 1, or more for a client that reconnects.
	Connects uint64
	// ConnectTime is how long the connect took.
	ConnectTime time.Duration
}

// Inline returns the largest RPC messages, in bytes, that are sent and received without
// chunks. Messages on the back channel never have chunks.
func (i *Info) Inline() (send, receive uint32) {
	header := conn.EmptyHeader(i.RPCVersion)
	return i.InlineSend - header, i.InlineReceive - header
}

// Characteristics are the transport characteristics that both sides of a connection of version
// 2 announced.
type Characteristics = conn.Characteristics

// BackchannelState is the state of calls from server to client: whether they
// can be made now, and the grant in force.
type BackchannelState = transport.Backchannel

// Padding is the use of padded messages on a connection (RDMA_MSGP).
type Padding = conn.Padding

// Configuration is what a peer announced through the Connection Configuration Protocol.
type Configuration = conn.Configuration

// tellable returns the size that private data can say: settings are in bytes,
// private data in KiB.
func tellable(n uint32) uint32 {
	return min(max(n, wire.MinSize), wire.MaxSize) / wire.SizeUnit * wire.SizeUnit
}

// privateData returns what we tell the peer at connect (RFC 8797).
func privateData(s *Settings, accepts bool) wire.PrivateData {
	return wire.PrivateData{
		RemoteInvalidation: accepts,
		SendSize:           tellable(s.InlineSendMax),
		ReceiveSize:        tellable(s.Receives()),
	}
}

// maxReads is how many RDMA Reads we offer or ask for at once: as many as a Linux client.
const maxReads = 128

func depth(limit int) int { return min(maxReads, limit) }

func readsIn(d verbs.Device) int  { return depth(d.Attr().MaxQPRdAtom) }
func readsOut(d verbs.Device) int { return depth(d.Attr().MaxQPInitRdAtom) }

// initiates returns how many RDMA Reads a client asks to have outstanding at once: none
// unless it may read replies.
func initiates(s *Settings, d verbs.Device) int {
	if s.Extensions.Has(settings.ExtReadReplies) {
		return readsOut(d)
	}
	return 0
}

// PeerError is an RPC-over-RDMA error that answered a call.
type PeerError = conn.PeerError

// setDevice records what the device cannot do.
func (i *Info) setDevice(d verbs.Device) {
	a := d.Attr()
	i.Device, i.NoWindows, i.NoSendInvalidate = a.Name, !a.MemWindowType2B, !a.SendInvalidate
}
