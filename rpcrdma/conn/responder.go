package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// ResponderConfig holds what is fixed when the connection is made. Sizes are in bytes.
type ResponderConfig struct {
	// PeerReceive is the largest Send that the peer takes.
	PeerReceive uint32
	// ToldSend is the largest Send that we announced to the peer. The peer's receives may
	// be no larger, and its calls offer no reply chunk for a reply that fits.
	ToldSend uint32
	// PeerSaid means that the peer announced PeerReceive at connect. Otherwise PeerReceive
	// is the default, and Configured may raise it.
	PeerSaid bool
	// PeerInvalidates means that both sides agreed at connect that replies may invalidate
	// the peer's STags.
	PeerInvalidates bool
	// CanInvalidate means that our device can invalidate a peer's STags.
	CanInvalidate bool
	// MaxTransfer is the most that one RDMA Read or Write moves.
	MaxTransfer uint32
	// MaxReceives is the most receives that the queue pair can hold.
	MaxReceives int
	// Receive is the size of our receives.
	Receive uint32
	// Reverse makes this the responder of the reverse direction, at a client. All its
	// messages are inline.
	Reverse  bool
	Settings *settings.Settings
}

// ResponderCounters count the events of a responder. They only grow.
type ResponderCounters struct {
	Calls, Replies      uint64
	Errors              uint64 // ERR_VERS and ERR_CHUNK sent, except ERR_VERS for the first message
	Dropped             uint64 // messages too short to answer
	Ignored             uint64 // DONE, ERROR and replies to calls that we never made
	Duplicates          uint64 // calls whose XID is in progress
	TooLong             uint64 // replies that did not fit into what the peer offered, also in Errors
	Reclaimed           uint64 // replies that the peer did not acknowledge in time
	SendsWithInvalidate uint64
	GroupsRefused       uint64 // XMTERRs sent, also in Errors
	Complaints          uint64 // XMTERRs received about our replies
}

// Responder answers calls on one connection.
type Responder struct {
	side
	cfg      ResponderConfig
	grants   credit.Grants
	adaptive credit.Adaptive
	started  bool // the first call has arrived
	draining bool // new calls are dropped
	finishes bool // see Finish
	dead     bool
	held     bool   // see Hold
	noReads  bool   // see MakesNoReads
	exact    bool   // see TakesExactly
	version  uint32 // agreed on; 0 means none yet
	begun    bool   // a good call or operation of the peer has come
	settled  bool   // a good answer was made: the limits of the version hold
	early    bool   // calls in the other direction may have begun before that
	opXID    uint32 // of our last operation

	most  int     // most credits granted at one time, now or soon
	calls []*Call // by Index
	free  []*Call
	xids  []uint32 // of calls in progress, in no order

	exposures exposures
	xmit      transmissions
	beside    *Requester // see Beside

	Counters ResponderCounters
}

// backlogSpare is how many answers may be unsent, in addition to two per credit, before the
// connection ends with ErrBacklog. It is two per credit because a peer may receive its
// answer and send the next call before our own Send completes. The spare covers answers to
// calls made before the grant was lowered.
const backlogSpare = 32

// NewResponder returns a responder without posted receives. Start returns what to post.
func NewResponder(cfg ResponderConfig) *Responder {
	r := &Responder{cfg: cfg}
	r.start(cfg.Settings, cfg.Receive)
	r.xmit.gather.Most = MaxMessage
	r.xmit.set(&r.settings)
	r.grants.Start(r.policy())
	return r
}

// Start returns the receives to post before the connection is made.
func (r *Responder) Start(acts []Action) []Action { return r.wantReceives(acts) }

// Posted is the event that n of asked receives were posted. With fewer than asked, the
// grant does not rise.
func (r *Responder) Posted(asked, n int) { r.grants.Confirm(asked, n) }

// SetSettings is the event that the settings changed. They apply from the next event on.
func (r *Responder) SetSettings(s *settings.Settings, acts []Action) []Action {
	r.set(s)
	r.xmit.set(s)
	if !r.started {
		r.grants.SetTarget(min(r.policy(), credit.Initial))
	} else {
		r.grants.SetTarget(r.policy())
	}
	return r.tell(r.wantReceives(acts))
}

// policy returns the grant that the settings ask for now.
func (r *Responder) policy() int {
	most := min(int(r.settings.CreditsMax), r.cfg.MaxReceives-credit.Slack-r.grants.Dones(), settings.CreditsLimit)
	if r.settings.CreditsPolicy == settings.CreditsAdaptive {
		least := int(r.settings.CreditsMin)
		if !r.started { // as cheap as a connection that makes no calls
			least = max(least, credit.Initial)
		}
		return r.adaptive.Grant(least, most)
	}
	return max(most, 1)
}

func (r *Responder) wantReceives(acts []Action) []Action {
	if n := r.grants.Want(); n > 0 {
		acts = append(acts, PostReceives{N: n})
	}
	return acts
}

// SendLimit returns the largest Send that we want to make now, in bytes. A longer Send is
// made if the caller offered no other way for its reply.
func (r *Responder) SendLimit() uint32 { return min(r.settings.InlineSendMax, r.AgreedReceive()) }

// AgreedReceive returns the largest Send that the peer takes now, in bytes, replies and calls
// to the client alike. The limits of version 2 hold after the first good answer (version two
// §5.1).
func (r *Responder) AgreedReceive() uint32 {
	if _, told := r.chars.PeerReceive(); !told && !r.settled {
		return r.connectReceive()
	}
	return r.PeerReceive()
}

// MakesNoReads is the event that the connection, which is up, allows us no RDMA Reads: the
// client offered none. A call with read chunks then gets an error. A Read would end the
// connection, and with it all other calls.
func (r *Responder) MakesNoReads() { r.noReads = true }

// unreadable reports whether we can make no RDMA Reads.
func (r *Responder) unreadable() bool { return r.noReads || r.peer.unreadable() }

// connectReceive returns the largest Send that the peer has receives for in any version, as
// announced at connect or with CCP, in bytes.
func (r *Responder) connectReceive() uint32 {
	return r.peer.receive(min(r.cfg.ToldSend, r.cfg.PeerReceive))
}

// PeerReceive returns the largest Send that the peer has receives for, in bytes. It does
// not depend on the settings.
func (r *Responder) PeerReceive() uint32 {
	if n, told := r.chars.PeerReceive(); told {
		return min(n, settings.InlineMax)
	}
	receive := r.connectReceive()
	if r.version == 0 || r.exact {
		return receive
	}
	return max(receive, versionOf(r.version).threshold())
}

// Invalidates reports whether replies may invalidate the peer's STags now.
func (r *Responder) Invalidates() bool {
	agreed := r.cfg.PeerInvalidates
	if r.chars.Peer == characteristics.Supported {
		agreed = r.cfg.CanInvalidate && r.chars.Told.Invalidation
	}
	return agreed && r.settings.RemoteInvalidationUse
}

// Granted returns the grant that was last sent to the peer.
func (r *Responder) Granted() uint32 { return r.grants.Told() }

// Settle ends the setup once the first receives are posted. With fewer than asked for, the
// connection begins with fewer credits. It returns false if there is no receive even for
// one call. The connection must not be made then.
func (r *Responder) Settle() bool { return r.grants.Settle() }

// Drain is the event that the connection is to end. It ends once the calls in progress are
// answered, and the replies that the peer reads are acknowledged or reclaimed. Later calls
// are dropped. Their sender makes them again on its next connection.
func (r *Responder) Drain(acts []Action) []Action {
	r.draining = true
	return r.drained(acts)
}

// Finish is like Drain, but does not wait for calls without a reply, also those in the other
// direction.
func (r *Responder) Finish(acts []Action) []Action {
	r.finishes = true
	return r.Drain(acts)
}

func (r *Responder) drained(acts []Action) []Action {
	if r.draining && !r.dead && (r.finishes || !r.held && r.grants.Held() == 0) && r.exposures.live == 0 {
		r.dead = true
		acts = append(acts, Disconnect{})
	}
	return acts
}

// Busy returns the number of calls not answered yet.
func (r *Responder) Busy() int { return r.grants.Held() }

// newCall returns a free Call. It returns nil if there are already more than a peer that
// takes its replies can need.
func (r *Responder) newCall() *Call {
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		return c
	}
	r.most = max(r.most, r.grants.Limit(), r.grants.Target())
	if len(r.calls) >= 2*r.most+backlogSpare {
		return nil
	}
	c := &Call{Index: len(r.calls)}
	r.calls = append(r.calls, c)
	return c
}

// Sent is the event that the work requests of a Send action have completed. Nothing refers
// to the call any more.
func (r *Responder) Sent(c *Call) {
	c.RPC.Args.Stream = nil
	clear(c.RPC.Args.Items)
	c.RPC.Cred.Body, c.RPC.Verf.Body = nil, nil
	c.stream, c.Denied, c.Exposure = nil, nil, nil
	c.forgetGroup()
	r.free = append(r.free, c)
}

// Shrink frees the storage of calls and returns true, if no call is in progress and no
// answer is unsent. Indexes then begin again.
func (r *Responder) Shrink() bool {
	if len(r.free) < len(r.calls) {
		return false
	}
	r.calls, r.free, r.xids = nil, nil, nil
	return true
}

// fail ends the connection, once.
func (r *Responder) fail(err error, acts []Action) []Action {
	if r.dead {
		return acts
	}
	r.dead = true
	return append(acts, Fail{Err: err})
}

// live and forget use xids, a list of the calls in progress. It is short and fits in a few
// cache lines, so it costs less than a map.
func (r *Responder) live(xid uint32) bool {
	return slices.Contains(r.xids, xid)
}

func (r *Responder) forget(c *Call) {
	if c.tracked {
		c.tracked = false
		r.xids = without(r.xids, c.XID)
	}
}

// readLimits bounds the RDMA Reads of one message, from its header's read list or from the
// items of an XMTREQ.
var readLimits = chunk.Limits{MaxChunks: maxReadChunks, MaxSegments: rpcrdma1.MaxReadSegments, MaxLength: MaxMessage}
