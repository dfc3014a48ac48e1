package transport

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Requester makes calls on one connection.
type Requester struct {
	side
	memory serviceMemory

	// Under link.mu:
	core     *conn.Requester
	draining bool
	inCalls  int        // calls made and not given back
	awaited  int        // calls begun and not over
	pend     []*pending // by slot
	idle     []*pending
	// unanswered is the number of ticks for which the offer of a version had no answer.
	unanswered int

	readings []*reading // of replies

	// callee answers calls of the server, at a client. reverse is set if this is the
	// requester of a server, which calls its client.
	callee  callee
	reverse bool
}

var _ role = (*Requester)(nil)

// MaxSegment is the largest segment that a requester offers, in bytes. It is the same as a
// Linux client's.
const MaxSegment = 1 << 20

// RequesterConfig configures a Requester. Sizes are in bytes.
type RequesterConfig struct {
	Settings *settings.Settings
	// ToldSend is the largest Send that we announce to the peer.
	ToldSend uint32
	// Only1 means that the peer is known not to speak version 2.
	Only1 bool
	// FirstXID is where XIDs start: a random number, or LastXID of the requester that this
	// one replaces.
	FirstXID uint32
	// Handler answers calls of the server while the settings allow them. nil means that
	// there is none.
	Handler oncrpc.Handler
	// Logger gets a line for each refused call of the server. nil logs nothing.
	Logger *slog.Logger
	// Tap lets an Observer watch the connection. nil means no Tap.
	Tap *Tap
	// Moved, if not nil, is set whenever what Stats or State return may have changed.
	Moved *fair.Mark
	// Lost is called before calls fail because the connection has ended, unless this side
	// closed it. nil means no call.
	Lost func()
}

// NewRequester makes the queues of a connection that is being made and posts its first
// receives. Call Start once the connection is up, or Abandon if it fails.
func NewRequester(h *Host, id rdmacm.ID, cfg RequesterConfig) (*Requester, error) {
	s := cfg.Settings
	l, err := newLink(h, id, s.InlineReceiveSize, cfg.Tap)
	if err != nil {
		return nil, err
	}
	r := &Requester{side: side{link: l}, memory: serviceMemory{l}}
	r.own, l.role, l.log = r, r, cfg.Logger
	r.callee.handler, l.mu.moved = cfg.Handler, cfg.Moved
	if cfg.Lost != nil {
		l.down = func(err error) {
			if err != nil || l.over() {
				cfg.Lost()
			}
		}
	}
	r.core = conn.NewRequester(conn.RequesterConfig{
		Receive:     s.InlineReceiveSize,
		ToldSend:    cfg.ToldSend,
		MaxReceives: l.maxReceives(),
		FirstXID:    cfg.FirstXID,
		MaxSegment:  int(min(MaxSegment, uint64(h.attr.MaxMsgSize), h.attr.MaxMRSize)),
		MaxTransfer: h.attr.MaxMsgSize,
		Only1:       cfg.Only1,
		Revocable:   h.attr.MemWindowType2B,
		Serves:      cfg.Handler != nil,
		Settings:    s,
	})
	l.mu.Lock()
	l.inbound.Replies(r.core)
	r.do(r.core.Start(r.acts))
	bad := l.dead || r.core.Short()
	r.takeCalls(s)
	l.mu.releaseAndPost()
	if bad {
		err := h.noMemory() // others may free some meanwhile
		l.abandon()
		return nil, err
	}
	return r, nil
}

// Start begins to work. The connection is up. The peer takes peerReceive bytes and makes
// peerSend bytes in one Send.
func (r *Requester) Start(peerReceive, peerSend uint32) error {
	r.mu.Lock()
	r.core.Connected(peerReceive, peerSend)
	allowed, made := r.id.Negotiated()
	if made > 0 {
		r.core.MayRead()
	}
	if allowed == 0 {
		r.core.NotRead()
	}
	r.tellCallee()
	r.mu.releaseAndPost()
	if err := r.start(func() {}); err != nil {
		return err
	}
	r.greet()
	return nil
}

// LastXID returns the last XID given to a call.
func (r *Requester) LastXID() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.LastXID()
}

// Alloc returns a buffer of at least n bytes. Items and results in it are sent and received
// without a copy.
func (r *Requester) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	return r.memory.Alloc(ctx, n)
}

// GiveWay is regmem.Pool.GiveWay.
func (r *Requester) GiveWay(ctx context.Context, most time.Duration) { r.host.pool.GiveWay(ctx, most) }

// SetSettings changes the settings. They apply from the next call on.
func (r *Requester) SetSettings(s *settings.Settings) {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if r.dead {
		return
	}
	r.do(r.core.SetSettings(s, r.acts))
	r.setCallee(s)
}

// Drain waits for the calls in flight, and for the server's calls that are being answered,
// then disconnects. New calls fail with ErrDraining. If ctx ends first, Drain closes the
// connection at once.
func (r *Requester) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.draining = true
	r.drained()
	r.mu.releaseAndPost()
	return r.drainedBy(ctx)
}

// drained disconnects once the last call has finished.
func (r *Requester) drained() {
	if !r.draining || r.dead || r.inCalls > 0 {
		return
	}
	if r.callee.drain() {
		return
	}
	r.ending = true
	r.pump()
}

// State returns the connection's current state.
func (r *Requester) State() State {
	r.mu.look()
	defer r.mu.Unlock()
	version, agreed := r.core.Version()
	return State{
		InlineSend:     r.core.SendLimit(),
		PeerReceive:    r.core.PeerReceive(),
		InlineReceive:  r.core.ReceiveSize(),
		CreditsGranted: r.core.Granted(),
		LastActive:     r.active,
		RPCVersion:     int(version), VersionAgreed: agreed,
		Padding: r.core.Padding(), Configuration: r.core.Configuration(),
		Backchannel: r.callee.state(), Characteristics: r.core.Characteristics(),
	}
}

// Stats returns the connection's counters.
func (r *Requester) Stats() Stats {
	r.mu.look()
	defer r.mu.Unlock()
	s, c := r.stats, &r.core.Counters
	s.Calls, s.Replies, s.Errors = c.Calls, c.Replies, c.Errors
	s.Dropped, s.Ignored, s.BadXIDs = c.Dropped, c.Stray, c.Stray
	r.callee.count(&s)
	return s
}

// answered implements role.
func (r *Requester) answered(a *conn.Arrival) {
	r.do(r.core.Arrived(a, r.acts))
}

// called implements role, for a call of the server. Without memory for an answer, it drops
// the call.
func (r *Requester) called(a *conn.Arrival) {
	v := &r.callee
	if v.resp == nil {
		r.makeCallee()
	}
	if !v.ready {
		r.answered(a)
		return
	}
	v.resp.called(a)
}

// interrupted implements role.
func (r *Requester) interrupted(a *conn.Arrival) {
	if a.Call {
		r.do(r.core.Interrupted(a, r.acts))
	} else {
		r.callee.resp.interrupted(a)
	}
}

// alone implements role.
func (r *Requester) alone(n int) bool {
	return n == 1 && r.inCalls == 0 && r.callee.resp.core.Busy() == 1 && !r.draining
}

// ended implements role.
func (r *Requester) ended(o *op) {
	switch o.kind {
	case opFence:
		p := r.pend[o.slot]
		r.recycleWindows(&p.windows)
		r.acts = r.core.Fenced(&p.out, r.acts)
	case opAnswer:
		r.callee.resp.ended(o)
	case opTell:
		r.core.Told()
	}
	r.carryOut()
}

// ticked implements role. If the first message gets no answer, it counts as lost: the peer
// does not know its version, not even enough to refuse it.
func (r *Requester) ticked(time.Time) {
	r.prepareCallee()
	if r.rq.below > 0 {
		r.resized()
	}
	if !r.core.Unanswered() {
		r.unanswered = 0
	} else if r.unanswered++; r.unanswered > stallTicks {
		r.dieLocked(ErrNotAgreed)
	}
}

// Unsure reports that the peer has not answered the offer of version 2, or refused it and
// sent no good answer since. It is also valid after the connection has ended.
func (r *Requester) Unsure() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.core.Unsure()
}

func (r *Requester) waits() bool { return r.core.InFlight() > 0 }

// lost implements role. Every call without an outcome fails.
func (r *Requester) lost(err error) (open error) {
	for _, a := range r.core.Lost(err, nil) {
		p := r.pend[a.(conn.Complete).Out.Tag]
		r.stats.WindowsOrphaned += uint64(p.exposedWindows())
		for i, w := range p.windows {
			if !r.host.attr.MemWindowType2B && !p.out.Windows[i].Revoked {
				open = errors.Join(open, w.Close())
			}
		}
		p.windows = p.windows[:0]
		r.finished(p)
	}
	return open
}

// shrink implements role.
func (r *Requester) shrink() {
	if r.callee.resp != nil {
		r.callee.resp.shrink()
	}
}

// free implements role. lost has freed the rest.
func (r *Requester) free() {
	r.lead.wait.release()
	r.freeReadings()
	if r.callee.resp != nil {
		r.callee.resp.free()
	}
}

func (r *Requester) posted(asked, n int) { r.acts = r.core.Posted(asked, n, r.acts) }

// perform implements performer.
func (r *Requester) perform(a conn.Action) {
	switch a := a.(type) {
	case conn.Ready:
		r.launch(r.pend[a.Out.Tag])
	case conn.Take:
		r.pend[a.Out.Tag].take()
	case conn.FetchReply:
		r.fetchReply(a.Reading)
	case conn.SendDone:
		r.sendNotice(r.core.Done(a.XID))
	case conn.Complain:
		r.sendNotice(r.core.Complaint())
	case conn.Fence:
		r.fence(r.pend[a.Out.Tag])
	case conn.Complete:
		r.completed(r.pend[a.Out.Tag])
	}
}
