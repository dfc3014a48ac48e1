package conn

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Errors with which a call ends without a reply.
var (
	// ErrCallTooLong means that the call, or a bound of its reply, is larger than
	// MaxMessage.
	ErrCallTooLong = errors.New("conn: message too long")
	// ErrTooManyCalls means that too many calls wait for a credit.
	ErrTooManyCalls = errors.New("conn: too many calls waiting for credits")
	// ErrXIDInUse means that a call in flight already has the XID that the caller chose.
	ErrXIDInUse = errors.New("conn: a call in flight has this XID")
	// ErrBadReply means that the reply is malformed or does not fit the call.
	ErrBadReply = errors.New("conn: bad reply")
	// ErrCanceled means that Cancel ended the call.
	ErrCanceled = errors.New("conn: call canceled")
	// ErrNoBackward means that the client announced, before this call was sent, that it
	// takes no calls, or that our settings allow none any more.
	ErrNoBackward = errors.New("conn: no calls in the reverse direction")
	// ErrReplan means that the plan of a call is no longer valid: the settings changed, or
	// the peer refused the version without processing the call. Plan the call again.
	ErrReplan = errors.New("conn: settings changed before the call was sent")
	// ErrUnsettled means that a call was planned maxPlans times, and each plan became
	// invalid before the call was sent.
	ErrUnsettled = errors.New("conn: limits keep changing, the call was never sent")
)

// MinSegment is the smallest MaxSegment, in bytes. It keeps the largest header below
// InlineMin.
const MinSegment = 256 << 10

// maxWaiting is the largest number of calls that wait for a credit.
const maxWaiting = 4096

// RequesterConfig holds what is fixed when the connection is made. Sizes are in bytes.
type RequesterConfig struct {
	// Receive is the size of our receives.
	Receive uint32
	// ToldSend is the largest Send that we announce to the peer. The peer's receives may be
	// no larger.
	ToldSend uint32
	// MaxReceives is the most receives that the queue pair can hold.
	MaxReceives int
	// FirstXID is where XIDs start: a random number or, after a lost connection, the
	// LastXID of that connection.
	FirstXID uint32
	// MaxSegment is the largest segment of a chunk; at least MinSegment, so that headers
	// stay short.
	MaxSegment int
	// MaxTransfer is the most that one RDMA Read moves. 0 means no limit.
	MaxTransfer uint32
	// Reverse makes this a server's requester in the reverse direction. All its messages
	// are inline.
	Reverse bool
	// Only1 means that the peer is known not to speak version 2. Version, if not 0, is the
	// version that was already agreed on.
	Only1   bool
	Version uint32
	// Revocable means that the device lets the peer invalidate our STags. Serves means that
	// a handler answers the peer's calls.
	Revocable, Serves bool
	Settings          *settings.Settings
}

// RequesterCounters count the events of a requester. They only grow.
type RequesterCounters struct {
	Calls, Replies uint64
	Errors         uint64 // error headers and bad replies
	Dropped        uint64 // messages too short, or of another version
	Stray          uint64 // replies to no call in flight: late, duplicate or made up
	GroupsRefused  uint64 // calls that the peer answered with XMTERR
	Complaints     uint64 // XMTERRs sent
}

// Requester makes calls on one connection.
type Requester struct {
	side
	cfg   RequesterConfig
	spend credit.Spend
	xid   uint32
	// Largest Send that the peer takes, and that it makes, in bytes.
	peerReceive, peerSend uint32
	heard                 bool // see Heard

	sent    map[uint32]*Outgoing // nil value: the call was given up, its answer is outstanding
	debts   map[uint32]debt      // of calls given up, unless they hold one credit and nothing else
	fencing []*Outgoing          // in no order
	waiting []*Outgoing          // oldest first
	// Replies being read, in no order. donesSent and donesArrived count DONEs.
	readings                []*Reading
	mayRead                 bool
	donesSent, donesArrived uint32
	header                  Header // of the message being received
	lost                    error
	owns                    bool   // a caller chose the XID of a call
	newest                  uint64 // the answer whose grant is in force, by Arrival.seq

	negotiation negotiation
	up          bool // see Greet
	untold      bool // there may be characteristics to send

	// responses means that the peer may know that we take responses in transmissions
	// (rtrext §8.2): extensions.xmit is on or was on.
	responses bool
	gather    transmission.Gathering // of a reply
	response  rpcrdma2.XmtResp       // that it began with
	finder    transmission.Finder    // of its results
	found     [][]byte               // storage
	// complaints holds what the Complain actions not yet carried out will say. One event
	// makes at most two: for the group that a message interrupts, and for that message.
	complaints []rpcrdma2.XmtError
	info       []byte

	Counters RequesterCounters
}

// NewRequester returns a requester without posted receives. Start returns what to post.
func NewRequester(cfg RequesterConfig) *Requester {
	cfg.MaxSegment = max(cfg.MaxSegment, MinSegment)
	cfg.MaxTransfer = cmp.Or(cfg.MaxTransfer, math.MaxUint32)
	r := &Requester{cfg: cfg, xid: cfg.FirstXID, sent: make(map[uint32]*Outgoing)}
	r.chars.Requester, r.chars.Revocable, r.chars.Serves = true, cfg.Revocable, cfg.Serves
	r.start(cfg.Settings, cfg.Receive)
	r.responses = cfg.Settings.Extensions.Has(settings.ExtXmit)
	r.gather.Most = MaxMessage
	r.negotiation.begin(&r.cfg)
	r.spend.Start(r.credits())
	return r
}

// credits returns the number of credits to ask for.
func (r *Requester) credits() uint32 {
	return min(r.settings.CreditsMax, uint32(max(r.cfg.MaxReceives-credit.Slack-int(r.spend.Spare()), 1)), settings.CreditsLimit)
}

// Connected is the event that the connection is up. The peer takes peerReceive bytes and
// makes peerSend bytes in one Send. Do not plan calls before this event.
func (r *Requester) Connected(peerReceive, peerSend uint32) {
	r.peerReceive, r.peerSend = peerReceive, peerSend
}

// Short reports that not even the first receives are posted. The connection must not be
// made then.
func (r *Requester) Short() bool { return r.spend.Limit() == 0 }

// Start returns the receives to post before the connection is made.
func (r *Requester) Start(acts []Action) []Action { return r.wantReceives(acts) }

func (r *Requester) wantReceives(acts []Action) []Action {
	if n := r.spend.Want(); n > 0 {
		acts = append(acts, PostReceives{N: int(n)})
	}
	return acts
}

// Posted is the event that n of asked receives were posted.
func (r *Requester) Posted(asked, n int, acts []Action) []Action {
	r.spend.Confirm(uint32(asked), uint32(n))
	return r.wake(acts)
}

// SetSettings is the event that the settings changed.
func (r *Requester) SetSettings(s *settings.Settings, acts []Action) []Action {
	r.set(s)
	r.responses = r.responses || s.Extensions.Has(settings.ExtXmit)
	r.untold = true
	r.spend.SetMax(r.credits())
	return r.wake(r.wantReceives(acts))
}

// SendLimit returns the largest Send that we may make now, in bytes.
func (r *Requester) SendLimit() uint32 {
	if r.negotiation.state == Offered {
		return min(r.settings.InlineSendMax, r.PeerReceive(), FirstMessageMax)
	}
	return min(r.settings.InlineSendMax, r.PeerReceive())
}

// PeerReceive returns the largest Send that the peer has receives for, in bytes. It does
// not depend on the settings.
func (r *Requester) PeerReceive() uint32 {
	if n, told := r.chars.PeerReceive(); told {
		return min(n, settings.InlineMax)
	}
	if r.cfg.Reverse { // the forward direction knows the limit
		return r.peerReceive
	}
	return max(r.peer.receive(min(r.cfg.ToldSend, r.peerReceive)), r.threshold())
}

// ReplyLimit returns the largest Send that the peer may make, in bytes.
func (r *Requester) ReplyLimit() uint32 {
	n := min(r.chars.Planned(), max(r.peerSend, r.threshold()))
	if r.probes() {
		return min(n, rpcrdma2.DefaultReceiveSize)
	}
	return n
}

// threshold returns the Send size that every peer takes and makes, in bytes.
func (r *Requester) threshold() uint32 {
	if r.negotiation.state == Offered {
		return settings.InlineMin
	}
	return r.negotiation.way.threshold()
}

// Granted returns the current grant of the peer, in credits.
func (r *Requester) Granted() uint32 { return r.spend.Granted() }

// Begin is the event that the planned call o wants to be sent. If now is true, o has a
// credit and an XID and may go out at once (Launch). Otherwise a Ready action follows
// later.
func (r *Requester) Begin(o *Outgoing) (now bool, err error) {
	if r.lost != nil {
		return false, r.lost
	}
	if o.Own {
		r.owns = true
		if r.used(o.XID) {
			r.release(o) // what Prepare reserved
			return false, ErrXIDInUse
		}
	}
	if r.passes(o) {
		if r.may(o) && r.spared(o) {
			r.ready(o)
			return true, nil
		}
		if r.hopeless(o) {
			r.withdraw(o)
			return false, ErrReplan
		}
	}
	if len(r.waiting) >= maxWaiting {
		r.release(o)
		return false, ErrTooManyCalls
	}
	o.state = outWaiting
	r.waiting = append(r.waiting, o)
	return false, nil
}

// may reports whether a call may go out now.
func (r *Requester) may(o *Outgoing) bool {
	return (r.spend.CanGroup(o.uses) || r.lone(o)) && (len(r.sent) == 0 || r.negotiation.state == Agreed)
}

// lone reports whether only XMTERRs, whose arrival no answer has shown, hold back o. In the
// reverse direction nothing but o's answer may ever show it, and o has no other way. A
// responder has receives for such messages beyond the credits (credit.Slack).
func (r *Requester) lone(o *Outgoing) bool {
	return r.cfg.Reverse && r.spend.InFlight() == 0 && o.uses <= r.spend.Limit()
}

// ready gives o its credits and an XID that is not in use.
func (r *Requester) ready(o *Outgoing) {
	r.spend.CallGroup(o.uses)
	if !o.Own && (!o.Again || r.used(o.XID)) {
		o.XID = r.nextXID()
	}
	o.state = outReady
	r.sent[o.XID] = o
}

func (r *Requester) nextXID() uint32 {
	for {
		r.xid++
		if !r.used(r.xid) {
			return r.xid
		}
	}
}

// used reports whether a call in flight has the XID, or a waiting call will have it.
func (r *Requester) used(xid uint32) bool {
	if _, sent := r.sent[xid]; sent || !r.owns {
		return sent
	}
	return slices.ContainsFunc(r.waiting, func(o *Outgoing) bool { return (o.Own || o.Again) && o.XID == xid })
}

// LastXID returns the last XID that the requester gave to a new call.
func (r *Requester) LastXID() uint32 { return r.xid }

// wake sends the waiting calls for which there are credits now.
func (r *Requester) wake(acts []Action) []Action {
	if r.untold {
		acts = r.tell(acts)
	}
	for i := r.head(); i < len(r.waiting); i = r.head() {
		o := r.waiting[i]
		if r.may(o) && r.reserve(o) {
			acts = r.wantReceives(acts)
		}
		may := r.may(o) && r.spared(o)
		if !may && (r.spend.Asked() || !r.hopeless(o)) {
			break
		}
		r.unwait(i)
		if !may {
			r.withdraw(o)
			acts = r.finish(o, acts)
			continue
		}
		r.ready(o)
		acts = append(acts, Ready{Out: o})
	}
	return acts
}

// Cancel is the event that the caller gives up o, before or after it was sent. The windows
// of o are invalidated before it completes. If o was sent, its credit comes back with the
// peer's answer.
func (r *Requester) Cancel(o *Outgoing, acts []Action) []Action {
	switch o.state {
	case outWaiting:
		r.release(o)
		r.waiting = slices.DeleteFunc(r.waiting, func(w *Outgoing) bool { return w == o })
	case outReady:
		r.release(o)
		delete(r.sent, o.XID)
		r.spend.ReturnGroup(o.uses)
	case outSent:
		r.abandon(o)
	case outReading:
		o.Read.out, o.Read = nil, nil // the reading continues without it
	default:
		return acts // it completes anyway
	}
	o.Err = ErrCanceled
	acts = r.finish(o, acts)
	return r.wake(acts)
}

// finish invalidates the windows of o that are still exposed, then completes o. A call can
// also end before Build: the caller gives up, or a hostile peer answers its XID.
func (r *Requester) finish(o *Outgoing, acts []Action) []Action {
	if (o.state == outSent || o.state == outReading) && (!o.built || o.exposes()) {
		o.state = outFencing
		r.fencing = append(r.fencing, o)
		return append(acts, Fence{Out: o})
	}
	o.state = outIdle
	return append(acts, Complete{Out: o})
}

// Fenced is the event that a Fence action was carried out.
func (r *Requester) Fenced(o *Outgoing, acts []Action) []Action {
	if o.state != outFencing {
		return acts
	}
	for i := range o.Windows {
		o.Windows[i].Revoked = true
	}
	r.fencing = without(r.fencing, o)
	return r.finish(o, acts)
}

// Lost is the event that the connection ended because of err, and with it all access of the
// peer. Every call that the requester holds completes with err, except calls whose outcome
// was already known.
func (r *Requester) Lost(err error, acts []Action) []Action {
	if r.lost != nil {
		return acts
	}
	r.lost = err
	for _, o := range r.waiting {
		o.Err, o.state = err, outIdle
		acts = append(acts, Complete{Out: o})
	}
	r.waiting = nil
	for _, o := range r.fencing {
		if o.state = outIdle; errors.Is(o.Err, ErrReplan) { // it was not made
			o.Err = err
		}
		acts = append(acts, Complete{Out: o})
	}
	r.fencing = nil
	for _, xid := range slices.Sorted(maps.Keys(r.sent)) {
		if o := r.sent[xid]; o != nil {
			o.Err, o.state = err, outIdle
			acts = append(acts, Complete{Out: o})
		}
	}
	clear(r.sent)
	for _, rd := range r.readings {
		if o := rd.out; o != nil {
			o.Err, o.state, o.Read = err, outIdle, nil
			acts = append(acts, Complete{Out: o})
		}
	}
	r.readings = nil
	return acts
}

// Waiting returns the number of calls that wait for a credit.
func (r *Requester) Waiting() int { return len(r.waiting) }

// InFlight returns the number of calls, and other messages that get an answer, that were
// sent and are not answered yet.
func (r *Requester) InFlight() int { return len(r.sent) }
