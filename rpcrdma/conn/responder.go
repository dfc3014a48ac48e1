package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// ResponderConfig is what is fixed when the connection is made. Sizes are in
// bytes.
type ResponderConfig struct {
	// PeerReceive is the most that the peer takes in one Send.
	PeerReceive uint32
	// ToldSend is the most that the peer was told that we send. Its receives
	// may be no larger, and its calls offer no reply chunk for what fits.
	ToldSend uint32
	// PeerSaid says that the peer told PeerReceive at connect; else it is the
	// default, and Configured may raise it.
	PeerSaid bool
	// PeerInvalidates says that both sides agreed at connect that replies may
	// invalidate the peer's STags.
	PeerInvalidates bool
	// CanInvalidate says that our device can invalidate a peer's STags.
	CanInvalidate bool
	// MaxTransfer is the most that one RDMA Read or Write moves.
	MaxTransfer uint32
	// MaxReceives is the most receives that the queue pair can hold.
	MaxReceives int
	// Receive is the size of our receives.
	Receive uint32
	// Reverse makes it the responder of the reverse direction, a client's: all
	// messages are inline.
	Reverse bool
	// Operations are the optional operations that are handled, in version 2.
	Operations []Operation
	Settings   *Settings
}

// ResponderCounters count what a responder saw. They only grow.
type ResponderCounters struct {
	Calls, Replies      uint64
	Errors              uint64 // ERR_VERS and ERR_CHUNK answered
	Dropped             uint64 // messages too short to answer
	Ignored             uint64 // DONE, ERROR and replies to calls that we never made
	Duplicates          uint64 // calls whose XID is in progress
	TooLong             uint64 // replies for which the peer offered too little, among Errors
	Reclaimed           uint64 // replies that the peer did not acknowledge in time
	SendsWithInvalidate uint64
	GroupsRefused       uint64 // XMTERRs sent, among Errors
	Complaints          uint64 // XMTERRs that came, about replies of ours
}

// Responder answers calls on one connection.
type Responder struct {
	cfg      ResponderConfig
	settings Settings
	grants   credit.Grants
	adaptive credit.Adaptive
	started  bool // the first call came
	draining bool // new calls are dropped
	dead     bool
	held     bool   // see Hold
	exact    bool   // see TakesExactly
	version  uint32 // agreed on; 0: none yet
	chars    characteristics.State
	opXID    uint32 // of our last operation

	most  int     // the most credits granted at one time so far, or soon
	calls []*Call // by Index
	free  []*Call
	xids  []uint32 // of calls in progress, in no order

	exposures exposures
	xmit      transmissions

	padding padding
	peer    configured

	Counters ResponderCounters
}

// backlogSpare is the number of answers that may be on their way beyond two
// per credit, before a peer counts as one that takes no replies. A peer may
// have its answer, and send the next call, before we see our own Send
// complete; hence two. Answers on their way may be as many as there were credits
// before the grant was lowered.
const backlogSpare = 32

// NewResponder returns a responder that has posted nothing yet; Start says
// what to post.
func NewResponder(cfg ResponderConfig) *Responder {
	r := &Responder{cfg: cfg, settings: *cfg.Settings}
	r.chars.Start(characteristicsOf(&r.settings), cfg.Receive)
	r.xmit.gather.Most = MaxMessage
	r.padding.set(&r.settings)
	r.xmit.set(&r.settings)
	r.grants.Start(r.policy())
	return r
}

// Start gives the receives to post before the connection is made.
func (r *Responder) Start(acts []Action) []Action { return r.wantReceives(acts) }

// Posted is the event that of asked receives n were posted. Fewer keep the
// grant where it is.
func (r *Responder) Posted(asked, n int) { r.grants.Confirm(asked, n) }

// SetSettings is the event that the settings changed. They apply from the
// next event on.
func (r *Responder) SetSettings(s *Settings, acts []Action) []Action {
	r.settings = *s
	r.chars.Apply(characteristicsOf(s))
	r.padding.set(s)
	r.xmit.set(s)
	if !r.started {
		r.grants.SetTarget(min(r.policy(), credit.Initial))
	} else {
		r.grants.SetTarget(r.policy())
	}
	return r.tell(r.wantReceives(acts))
}

// policy is the grant that the settings want now.
func (r *Responder) policy() int {
	most := min(int(r.settings.CreditsMax), r.cfg.MaxReceives-credit.Slack-r.grants.Dones(), CreditsLimit)
	if r.settings.CreditsPolicy == CreditsAdaptive {
		least := int(r.settings.CreditsMin)
		if !r.started { // as cheap as any connection that never calls
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

// SendLimit is the most bytes of one Send now, unless a caller offered too
// little for less.
func (r *Responder) SendLimit() uint32 {
	return min(r.settings.InlineSendMax, r.PeerReceive())
}

// PeerReceive is the most bytes of one Send that the peer has receives for,
// whatever the settings become.
func (r *Responder) PeerReceive() uint32 {
	if n, told := r.chars.PeerReceive(); told {
		return min(n, InlineMax)
	}
	receive := r.peer.receive(min(r.cfg.ToldSend, r.cfg.PeerReceive))
	if r.version == 0 || r.exact {
		return receive
	}
	return max(receive, versionOf(r.version).threshold())
}

// Invalidates says whether replies may invalidate the peer's STags now.
func (r *Responder) Invalidates() bool {
	agreed := r.cfg.PeerInvalidates
	if r.chars.Peer == characteristics.Supported {
		agreed = r.cfg.CanInvalidate && r.chars.Told.Invalidation
	}
	return agreed && r.settings.RemoteInvalidationUse
}

// Granted is the last grant told to the peer.
func (r *Responder) Granted() uint32 { return r.grants.Told() }

// Settle ends the start, once the first receives are posted: with fewer than
// asked for, the connection begins with fewer credits. False says that there is
// none for a single call: the connection must not be made.
func (r *Responder) Settle() bool { return r.grants.Settle() }

// Drain is the event that the connection is to end once the calls in progress
// are answered and what the peer reads of the answers was acknowledged or
// reclaimed. Calls that come later are dropped: their sender makes them
// again on its next connection.
func (r *Responder) Drain(acts []Action) []Action {
	r.draining = true
	return r.drained(acts)
}

func (r *Responder) drained(acts []Action) []Action {
	if r.draining && !r.dead && !r.held && r.grants.Held() == 0 && r.exposures.live == 0 {
		r.dead = true
		acts = append(acts, Disconnect{})
	}
	return acts
}

// Busy is the number of calls not answered yet.
func (r *Responder) Busy() int { return r.grants.Held() }

// newCall takes a free slot; nil when there are more than a peer that takes
// its replies can ever need.
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

// Sent is the event that a Send action's work requests have completed, and
// that nothing refers to the call any more.
func (r *Responder) Sent(c *Call) {
	c.RPC.Args.Stream = nil
	clear(c.RPC.Args.Items)
	c.RPC.Cred.Body, c.RPC.Verf.Body = nil, nil
	c.stream, c.Denied, c.Exposure = nil, nil, nil
	c.forgetGroup()
	r.free = append(r.free, c)
}

// Shrink frees the storage of calls if none is in progress and no answer is on its
// way; then it returns true, and Indexes begin anew.
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

// live and forget keep the XIDs of the calls in progress. They are few and
// lie in a few cache lines: cheaper than a map.
func (r *Responder) live(xid uint32) bool {
	return slices.Contains(r.xids, xid)
}

func (r *Responder) forget(c *Call) {
	if c.tracked {
		c.tracked = false
		r.xids = without(r.xids, c.XID)
	}
}

// readLimits bound the RDMA Reads of one message, whether its header has them in a
// read list or as items of an XMTREQ.
var readLimits = chunk.Limits{MaxChunks: maxReadChunks, MaxSegments: rpcrdma1.MaxReadSegments, MaxLength: MaxMessage}
