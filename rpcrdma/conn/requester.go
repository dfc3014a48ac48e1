package conn

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Outcomes of a call other than a reply.
var (
	// ErrCallTooLong means that the call, or a bound of its reply, is over MaxMessage.
	ErrCallTooLong = errors.New("conn: message too long")
	// ErrTooManyCalls means that too many calls wait for a credit.
	ErrTooManyCalls = errors.New("conn: too many calls waiting for credits")
	// ErrXIDInUse means that a call in flight has the XID that the caller gave.
	ErrXIDInUse = errors.New("conn: XID of a call in flight")
	// ErrBadReply means that the reply is malformed or does not fit the call.
	ErrBadReply = errors.New("conn: bad reply")
	// ErrCanceled means that Cancel ended the call.
	ErrCanceled = errors.New("conn: call canceled")
	// ErrNoBackward means that the client told that it takes no calls, before
	// this one was sent.
	ErrNoBackward = errors.New("conn: the peer takes no calls in the reverse direction")
	// ErrReplan means that the plan does not hold any more: the settings
	// changed, or the peer refused the version and looked at nothing else.
	// Nothing was done; plan anew.
	ErrReplan = errors.New("conn: settings changed before the call was sent")
	// ErrUnsettled means that a call was planned maxPlans times and no plan held
	// until it was sent.
	ErrUnsettled = errors.New("conn: limits keep changing, the call was never sent")
)

// MinSegment is the least MaxSegment, in bytes. With it the largest header
// stays below InlineMin.
const MinSegment = 256 << 10

// maxWaiting is the most calls that wait for a credit.
const maxWaiting = 4096

// RequesterConfig is what is fixed when the connection is made. Sizes are in
// bytes.
type RequesterConfig struct {
	// Receive is the size of our receives.
	Receive uint32
	// ToldSend is the largest Send that we announce to the peer. Its receives may
	// be no larger.
	ToldSend uint32
	// MaxReceives is the most receives that the queue pair can hold.
	MaxReceives int
	// FirstXID is where XIDs start: random or, after a connection that was
	// lost, its LastXID.
	FirstXID uint32
	// MaxSegment is the most bytes of one segment of a chunk; at least
	// MinSegment, so that headers stay short.
	MaxSegment int
	// MaxTransfer is the most that one RDMA Read moves; 0 is no bound.
	MaxTransfer uint32
	// Reverse makes it the requester of the reverse direction, a server's: all
	// its messages are inline.
	Reverse bool
	// Only1 says that the peer is known not to speak version 2. With Version,
	// not 0, the version was agreed on already.
	Only1   bool
	Version uint32
	// Revocable says that the device lets the peer invalidate our STags, Serves
	// that a handler answers the calls of the peer.
	Revocable, Serves bool
	// Operations are the optional operations of a responder that are handled,
	// in version 2.
	Operations []Operation
	Settings   *Settings
}

// RequesterCounters count what a requester saw. They only grow.
type RequesterCounters struct {
	Calls, Replies uint64
	Errors         uint64 // error headers and bad replies
	Dropped        uint64 // messages too short, or of another version
	Stray          uint64 // replies to no call in flight: late, duplicate or made up
	Dones          uint64 // DONEs sent
	GroupsRefused  uint64 // calls that the peer answered with XMTERR
	Complaints     uint64 // XMTERRs sent
}

// Requester makes calls on one connection.
type Requester struct {
	cfg      RequesterConfig
	settings Settings
	spend    credit.Spend
	xid      uint32
	// The most bytes of one Send that the peer takes, and that it makes.
	peerReceive, peerSend uint32
	heard                 bool // see Heard

	sent    map[uint32]*Outgoing // nil value: given up, its answer outstanding
	debts   map[uint32]debt      // of those given up, if not one credit
	fencing []*Outgoing          // in no order
	waiting []*Outgoing          // oldest first
	// Replies being read, in no order. donesSent and donesArrived number DONEs.
	readings                []*Reading
	mayRead                 bool
	donesSent, donesArrived uint32
	header                  Header // of the message being received
	lost                    error
	owns                    bool // there was a call with an XID of its caller's

	negotiation negotiation
	chars       characteristics.State
	padding     padding
	peer        configured
	up          bool // see Greet
	untold      bool // there may be characteristics to tell

	gather   transmission.Gathering // of a reply
	response rpcrdma2.XmtResp       // that it began with
	finder   transmission.Finder    // of its results
	found    [][]byte               // storage
	// complaints are what Complain actions that were not carried out yet are to
	// say. An event makes two at most: of the group that a message interrupts,
	// and of that message.
	complaints []rpcrdma2.XmtError
	info       []byte

	Counters RequesterCounters
}

// NewRequester returns a requester that has posted nothing yet; Start says
// what to post.
func NewRequester(cfg RequesterConfig) *Requester {
	cfg.MaxSegment = max(cfg.MaxSegment, MinSegment)
	if cfg.MaxTransfer == 0 {
		cfg.MaxTransfer = math.MaxUint32
	}
	r := &Requester{cfg: cfg, settings: *cfg.Settings, xid: cfg.FirstXID, sent: make(map[uint32]*Outgoing)}
	r.chars.Requester, r.chars.Revocable, r.chars.Serves = true, cfg.Revocable, cfg.Serves
	r.chars.Start(characteristicsOf(&r.settings), cfg.Receive)
	r.gather.Most = MaxMessage
	r.negotiation.begin(&r.cfg)
	r.padding.set(&r.settings)
	r.spend.Start(r.credits())
	return r
}

// credits is the number of credits that we want.
func (r *Requester) credits() uint32 {
	return min(r.settings.CreditsMax, uint32(max(r.cfg.MaxReceives-credit.Slack-int(r.spend.Spare()), 1)), CreditsLimit)
}

// Connected is the event that the connection is up: the peer takes peerReceive
// and makes peerSend bytes in one Send. Before it nothing may be planned.
func (r *Requester) Connected(peerReceive, peerSend uint32) {
	r.peerReceive, r.peerSend = peerReceive, peerSend
}

// Short says that not even the first receives are posted: the connection must
// not be made.
func (r *Requester) Short() bool { return r.spend.Limit() == 0 }

// Start gives the receives to post before the connection is made.
func (r *Requester) Start(acts []Action) []Action { return r.wantReceives(acts) }

func (r *Requester) wantReceives(acts []Action) []Action {
	if n := r.spend.Want(); n > 0 {
		acts = append(acts, PostReceives{N: int(n)})
	}
	return acts
}

// Posted is the event that of asked receives n were posted.
func (r *Requester) Posted(asked, n int, acts []Action) []Action {
	r.spend.Confirm(uint32(asked), uint32(n))
	return r.wake(acts)
}

// SetSettings is the event that the settings changed.
func (r *Requester) SetSettings(s *Settings, acts []Action) []Action {
	r.settings = *s
	r.chars.Apply(characteristicsOf(s))
	r.untold = true
	r.padding.set(s)
	r.spend.SetMax(r.credits())
	return r.wake(r.wantReceives(acts))
}

// SendLimit is the most bytes of one Send now.
func (r *Requester) SendLimit() uint32 {
	if r.negotiation.state == Offered {
		return min(r.settings.InlineSendMax, r.PeerReceive(), FirstMessageMax)
	}
	return min(r.settings.InlineSendMax, r.PeerReceive())
}

// PeerReceive is the most bytes of one Send that the peer has receives for,
// whatever the settings become.
func (r *Requester) PeerReceive() uint32 {
	if n, told := r.chars.PeerReceive(); told {
		return min(n, InlineMax)
	}
	if r.cfg.Reverse && r.heard {
		return r.peerReceive
	}
	return max(r.peer.receive(min(r.cfg.ToldSend, r.peerReceive)), r.threshold())
}

// ReplyLimit is the most bytes of one Send of the peer.
func (r *Requester) ReplyLimit() uint32 {
	return min(r.chars.Planned(), max(r.peerSend, r.threshold()))
}

// threshold is what every peer takes and makes in one Send, in bytes.
func (r *Requester) threshold() uint32 {
	if r.negotiation.state == Offered {
		return InlineMin
	}
	return r.negotiation.way.threshold()
}

// Granted is the grant in force.
func (r *Requester) Granted() uint32 { return r.spend.Granted() }

// Begin is the event that o, which is planned, wants to be sent. With now, it
// has a credit and an XID and may go at once (Launch); else a Ready action
// says when.
func (r *Requester) Begin(o *Outgoing) (now bool, err error) {
	if r.lost != nil {
		return false, r.lost
	}
	if o.Own {
		r.owns = true
		if r.used(o.XID) {
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
		return false, ErrTooManyCalls
	}
	o.state = outWaiting
	r.waiting = append(r.waiting, o)
	return false, nil
}

// may says whether a call may go out now.
func (r *Requester) may(o *Outgoing) bool {
	return r.spend.CanGroup(o.uses) && (len(r.sent) == 0 || !r.negotiation.alone())
}

// ready gives o its credits and an XID that is not in use.
func (r *Requester) ready(o *Outgoing) {
	r.spend.CallGroup(o.uses)
	if _, used := r.sent[o.XID]; !o.Own && (used || !o.Again) {
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

// used says whether a call in flight has the XID, or will have it.
func (r *Requester) used(xid uint32) bool {
	if _, sent := r.sent[xid]; sent || !r.owns {
		return sent
	}
	return slices.ContainsFunc(r.waiting, func(o *Outgoing) bool { return o.Own && o.XID == xid })
}

// LastXID is the last XID given to a call that was not sent before.
func (r *Requester) LastXID() uint32 { return r.xid }

// wake lets calls go for which there are credits now.
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

// Cancel is the event that the caller gives o up, before or after it was
// sent. The windows of o are invalidated before it completes; its credit comes
// back with the peer's answer, if it was sent.
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
		r.leave(o)
	default:
		return acts // it completes anyhow
	}
	o.Err = ErrCanceled
	acts = r.finish(o, acts)
	return r.wake(acts)
}

// finish invalidates what o still exposes, then completes it.
func (r *Requester) finish(o *Outgoing, acts []Action) []Action {
	for i := range o.Windows {
		if !o.Windows[i].Revoked && (o.state == outSent || o.state == outReading) {
			o.state = outFencing
			r.fencing = append(r.fencing, o)
			return append(acts, Fence{Out: o})
		}
	}
	o.state = outIdle
	return append(acts, Complete{Out: o})
}

// Fenced is the event that a Fence has been carried out.
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

// Lost is the event that the connection has ended because of err, and with it
// all access of the peer. Every call that is with us completes with err, but for
// those whose outcome was known.
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

// Waiting is the number of calls that wait for a credit.
func (r *Requester) Waiting() int { return len(r.waiting) }

// InFlight is the number of calls, and of other messages that are answered, that
// went out and are not answered.
func (r *Requester) InFlight() int { return len(r.sent) }
