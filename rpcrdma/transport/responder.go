package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/bulk"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ResponderConfig configures a Responder. Sizes are in bytes.
type ResponderConfig struct {
	Handler  oncrpc.Handler
	Settings *settings.Settings
	// PeerReceive is the largest Send that the peer takes.
	PeerReceive uint32
	// ToldSend is the largest Send that we announced to the peer.
	ToldSend uint32
	// PeerSend is the largest Send that the peer makes.
	PeerSend uint32
	// FirstXID is where XIDs of calls to the client start: a random number.
	FirstXID uint32
	// PeerSaid means that the peer announced PeerReceive at connect.
	PeerSaid bool
	// Reads is the number of RDMA Reads that may be active at our side.
	Reads uint32
	// PeerInvalidates means that both sides agreed on remote invalidation.
	PeerInvalidates bool
	// Queued, if not nil, is called when a service starts, with the time that its call
	// waited. The goroutine of the service calls it.
	Queued func(time.Duration)
	// Early means that the Handler takes calls whose items have not arrived yet.
	Early bool
	// Later means that the Handler does not wait: it answers its calls later, so that the
	// goroutine that polls may serve them whatever else is in progress.
	Later bool
	// Slow finds calls that take long.
	Slow slow.Calls
	// Logger gets a line for each refused or dropped message. nil logs nothing.
	Logger *slog.Logger
	// Tap lets an Observer watch the connection. nil means no Tap.
	Tap *Tap
	// Moved, if not nil, is set whenever what Stats or State return may have changed.
	Moved *fair.Mark
	// Down, if not nil, is called when the connection begins to end, with the reason
	// that Err returns.
	Down func(error)
	// Gone, if not nil, is called when a connection that was up has ended and everything is
	// freed, after Done is closed. It may block, and may close the host.
	Gone func()
}

// Responder answers calls on one connection.
type Responder struct {
	side
	handler oncrpc.Handler
	peer    netip.AddrPort
	reads   uint32 // that may be active at our side
	ahead   bool   // ResponderConfig.Early
	memory  serviceMemory
	queued  func(time.Duration)
	aim     atomic.Int32 // for the adaptive policy

	// Under link.mu:
	core     *conn.Responder
	calls    []*call
	draining bool
	first    time.Time // arrival of the first message of the call that is arriving, for slow

	exposures []*exposure // by index

	// caller makes a server's calls to its client. reverse is set if this is the responder
	// of a client, which answers calls of its server.
	caller  caller
	reverse bool
}

var _ role = (*Responder)(nil)

// NewResponder makes the queues of a connection that is being accepted and posts its first
// receives. Call Start once the connection is up, or Abandon if it fails.
func NewResponder(h *Host, id rdmacm.ID, cfg ResponderConfig) (*Responder, error) {
	l, err := newLink(h, id, cfg.Settings.InlineReceiveSize, cfg.Tap)
	if err != nil {
		return nil, err
	}
	r := &Responder{side: side{link: l}, handler: cfg.Handler, peer: id.RemoteAddr(), reads: cfg.Reads, memory: serviceMemory{l}, queued: cfg.Queued, ahead: cfg.Early}
	l.later, l.mu.moved = cfg.Later, cfg.Moved
	r.own, l.role, l.log, l.slow, l.down, l.gone = r, r, cfg.Logger, cfg.Slow, cfg.Down, cfg.Gone
	r.caller.init(&cfg)
	r.core = conn.NewResponder(conn.ResponderConfig{
		PeerReceive:     cfg.PeerReceive,
		ToldSend:        cfg.ToldSend,
		PeerSaid:        cfg.PeerSaid,
		PeerInvalidates: cfg.PeerInvalidates && h.attr.SendInvalidate,
		CanInvalidate:   h.attr.SendInvalidate,
		MaxTransfer:     h.attr.MaxMsgSize,
		MaxReceives:     l.maxReceives(),
		Receive:         uint32(l.rq.size),
		Settings:        cfg.Settings,
	})
	l.setSharing(cfg.Settings)
	l.mu.Lock()
	l.inbound.Calls(r.core, true)
	r.do(r.core.Start(r.acts))
	short := !l.dead && !r.core.Settle()
	l.mu.releaseAndPost()
	if l.dead || short {
		err := h.noMemory() // others may free some meanwhile
		l.abandon()
		return nil, err
	}
	return r, nil
}

// Start begins to serve. The connection is up. Start calls up when nothing can fail any
// more, and processes no message of the peer before up returns.
func (r *Responder) Start(up func()) error {
	r.mu.Lock()
	allowed, made := r.id.Negotiated()
	if made == 0 {
		r.core.MakesNoReads()
	}
	if allowed == 0 {
		r.core.NotRead()
	}
	r.mu.Unlock()
	return r.start(up)
}

// SetSettings changes the settings. They apply from the next message on.
func (r *Responder) SetSettings(s *settings.Settings) {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if r.dead {
		return
	}
	r.setSharing(s)
	r.do(r.core.SetSettings(s, r.acts))
	r.setReverse(s)
}

// Drain finishes the calls in progress, including those to the client, and disconnects. If
// ctx ends first, Drain closes the connection at once.
func (r *Responder) Drain(ctx context.Context) error {
	r.drain(r.core.Drain)
	return r.drainedBy(ctx)
}

// Finish disconnects once the replies so far are sent, and the client has read those that it is to
// read. It does not wait. Calls in progress get no reply.
func (r *Responder) Finish() { r.drain(r.core.Finish) }

func (r *Responder) drain(how func([]conn.Action) []conn.Action) {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.draining = true
	if !r.dead {
		r.do(how(r.acts))
	}
}

// State is the current state of a connection. Sizes are in bytes.
type State struct {
	// RPCVersion is the version of RPC-over-RDMA. With extensions.v2 the first answered
	// call decides it.
	RPCVersion int
	// VersionAgreed means that RPCVersion is fixed for the connection's life.
	VersionAgreed bool
	// InlineSend is the largest Send that we make, InlineReceive the largest that we take.
	InlineSend, InlineReceive uint32
	// PeerReceive bounds InlineSend: the smaller of what the peer takes in one Send and
	// what we announced to make.
	PeerReceive    uint32
	CreditsGranted uint32
	// RemoteInvalidation means that both sides agreed on it at connect, and its use is on.
	RemoteInvalidation bool
	// LastActive is when the connection was last used.
	LastActive time.Time
	// Padding is the state of extensions.msgp. Configuration is what the peer announced
	// with the Connection Configuration Protocol (extensions.ccp).
	Padding       conn.Padding
	Configuration conn.Configuration
	// Backchannel is the state of calls from server to client
	// (extensions.backchannel).
	Backchannel Backchannel
	// Characteristics are what both sides announced (extensions.characteristics).
	Characteristics Characteristics
}

// State returns the connection's current state.
func (r *Responder) State() State {
	r.mu.look()
	defer r.mu.Unlock()
	version, _ := r.core.Version()
	return State{
		InlineSend:         r.core.SendLimit(),
		PeerReceive:        r.core.PeerReceive(),
		InlineReceive:      r.core.ReceiveSize(),
		CreditsGranted:     r.core.Granted(),
		RemoteInvalidation: r.core.Invalidates(),
		LastActive:         r.active,
		Padding:            r.core.Padding(), Configuration: r.core.Configuration(),
		Backchannel: r.caller.state(),
		RPCVersion:  int(version), VersionAgreed: r.core.Agreed(), Characteristics: r.core.Characteristics(),
	}
}

// Stats returns the connection's counters.
func (r *Responder) Stats() Stats {
	r.mu.look()
	defer r.mu.Unlock()
	s, c := r.stats, &r.core.Counters
	s.Calls, s.Replies, s.Errors = c.Calls, c.Replies, c.Errors
	s.SendsWithInvalidate = c.SendsWithInvalidate
	s.Dropped, s.Ignored, s.Duplicates = c.Dropped, c.Ignored, c.Duplicates
	s.RepliesReclaimed, s.RepliesTooLong = c.Reclaimed, c.TooLong
	r.caller.count(&s)
	return s
}

// called implements role.
func (r *Responder) called(a *conn.Arrival) {
	if r.slow.On() && !r.core.Continues(a) {
		r.first = r.now
	}
	r.do(r.core.Arrived(a, r.acts))
	if r.caller.opened && r.caller.req == nil {
		r.prepareCalls() // the client may have chosen a version now
	}
}

// interrupted implements role.
func (r *Responder) interrupted(a *conn.Arrival) {
	if a.Call {
		r.caller.req.interrupted(a)
	} else {
		r.do(r.core.Interrupted(a, r.acts))
	}
}

// exposed implements role, for calls to the client. A responder waits for its own binds
// with opBind.
func (r *Responder) exposed(o *op) { r.caller.req.exposed(o) }

// ended implements role.
func (r *Responder) ended(o *op) {
	switch o.kind {
	case opAnswer:
		r.sent(r.calls[o.slot])
	case opBind:
		r.bound(r.calls[o.slot])
	case opUnexpose:
		r.unexposed(r.exposures[o.slot])
	case opTell:
		r.core.Told()
	}
	r.carryOut()
}

func (r *Responder) waits() bool { return false }

// restLead implements role. The peer may call at any time.
func (r *Responder) restLead() bool { return false }

// lost implements role. Services see their context end.
func (r *Responder) lost(err error) error {
	if q := r.caller.req; q != nil {
		return q.lost(err)
	}
	return nil
}

// shrink implements role.
func (r *Responder) shrink() {
	if r.core.Shrink() {
		r.calls, r.acts = nil, nil
	}
}

// free implements role.
func (r *Responder) free() {
	for _, c := range r.calls {
		r.took(c, r.now, true)
		c.release()
	}
	r.freeExposures()
}

func (r *Responder) posted(asked, n int) { r.core.Posted(asked, n) }

// perform implements performer.
func (r *Responder) perform(a conn.Action) {
	switch a := a.(type) {
	case conn.Fetch:
		r.of(a.Call).begin()
	case conn.Deliver:
		r.deliver(r.of(a.Call))
	case conn.Write:
		r.write(r.of(a.Call))
	case conn.Send:
		r.send(r.of(a.Call))
	case conn.Expose:
		r.expose(r.of(a.Call))
	case conn.Unexpose:
		r.unexpose(a.Exposure)
	case conn.Report:
		r.refused(a)
	case conn.Disconnect:
		r.ending = true
		r.pump()
	}
}

// of returns the transport's state of a call.
func (r *Responder) of(c *conn.Call) *call {
	for len(r.calls) <= c.Index {
		r.calls = append(r.calls, &call{r: r})
	}
	t := r.calls[c.Index]
	t.call = c
	return t
}

// maxRoom limits the room kept for the stream of a reply of several transmissions, in
// bytes, unless one transmission needs more. A longer stream is copied.
const maxRoom = 64 << 10

// deliver gives a call to be served, with a buffer for its reply. Without memory it gets none:
// whatever waits for a service must not take memory beyond the limit. The reply then finds its
// own.
func (r *Responder) deliver(c *call) {
	limit := int(r.core.SendLimit())
	if c.buf = r.host.pool.TryAlloc(limit+max(limit, min(c.call.ReplySends()*limit, maxRoom)), regmem.Service); c.buf != nil {
		c.head = limit
	}
	r.countCall(c)
	c.queueing.delivered(r.now, c.fetch.buf != nil)
	if c.fetch.buf == nil {
		c.follow(r.first)
	}
	c.times.Note(slow.Delivered, r.now)
	rpc := &c.call.RPC
	rpc.Peer, rpc.Turn, rpc.Later, rpc.Arrival, c.place, c.left = r.peer, c, c, nil, nil, 0
	if c.fetch.left == 0 {
		c.early = false
	}
	if c.early {
		rpc.Arrival = &c.arrival
	}
	r.busy.Add(1)
	r.hand(c)
}

// alone implements role. A service that answers later keeps nothing waiting.
func (r *Responder) alone(n int) bool {
	return !r.draining && (r.later || (n > 1 || r.core.Busy() == 1) && r.caller.busy == 0)
}

// call is the transport's state of a call in progress.
type call struct {
	r    *Responder
	call *conn.Call

	// buf holds the header, which ends at head, and the reply's stream, which begins there. It
	// is nil, and head 0, if there was no memory when the call was delivered.
	buf  *regmem.Buffer
	head int

	fetch    fetch // of the read chunks
	early    bool  // it is delivered while they are read, unless the core cannot do that
	arrival  arrival
	queueing queueing
	times    *slow.Timeline // nil while slow calls are not measured
	place    *turn          // of the worker that serves it; nil before that
	left     uint64         // the leader's turn that began when it served this call of several; else 0

	reply oncrpc.Reply
	ahead []*regmem.Buffer // memory of results that is written from already
	plan  []chunk.Item
	// sources are where the reply's items are sent from, stream where its stream is.
	sources []source
	stream  source
}

// source is registered memory to send from.
type source struct {
	buf *regmem.Buffer
	off int
}

func (s source) sge(off, n int) verbs.SGE { return s.buf.SGE(s.off+off, n) }

// follows reports whether s begins where e ends.
func (s source) follows(e verbs.SGE) bool {
	return e.MR == s.buf.MR() && e.Offset+e.Length == s.buf.Offset()+s.off
}

// turn implements turnTask.
func (c *call) turn(t *turn) { c.place = t }

var _ oncrpc.Later = (*call)(nil)

// Waits implements oncrpc.Turn: other calls may run meanwhile.
func (c *call) Waits() {
	switch l := c.r.link; {
	case c.place != nil:
		l.host.workers.waits(c.place)
	case c.left != 0 && l.lead.Return(c.left): // others must not wait with the leader
		(*leader)(l).Expired()
	}
}

var _ fetcher = (*call)(nil)

// begin fetches the call's read chunks.
func (c *call) begin() {
	c.fetch.owner, c.fetch.list, c.fetch.reads = c, &c.call.Reads, c.call.Fetches
	c.queueing = queueing{}
	c.followChunks()
	c.fetch.step, c.early = 0, c.r.mayDeliverEarly(c)
	if c.early {
		c.fetch.step = earlyStep
		c.arrival.start(&c.call.Reads)
	}
	c.r.fetch(&c.fetch)
}

func (c *call) late() { c.queueing.lacks() }

func (c *call) behind() { // a wait for the peer, as the Reads themselves
	c.queueing.reads()
	c.times.Pass(slow.Reading)
}

func (c *call) reading() {
	c.queueing.reads()
	c.times.Pass(slow.Reading)
	if len(c.fetch.reads) > 0 {
		c.r.stats.RoundTrips++
	}
}

func (c *call) posted() {
	if c.early {
		c.r.do(c.r.core.Fetching(c.call, c.fetch.parts, c.r.acts))
	}
}

func (c *call) read(n int) {
	if c.early {
		c.arrival.add(n)
	}
}

func (c *call) fetched() {
	c.r.do(c.r.core.Fetched(c.call, c.fetch.parts, c.r.acts))
}

func (c *call) unfetched(error) {
	c.r.do(c.r.core.NoMemory(c.call, c.r.acts))
}

// run serves the call and sends its reply, unless the reply comes later.
func (c *call) run() {
	if c.serve() {
		c.finish()
	}
}

// serve runs the service. If it returns false, the service answers by Answer, perhaps has
// done so already, and the caller must not use c.
func (c *call) serve() (answered bool) {
	r := c.r
	r.started(c)
	c.times.Pass(slow.Started)
	c.reply.Mem, c.reply.Ahead = r.memory, c
	if c.reply.Stream = nil; c.buf != nil {
		c.reply.Stream = c.buf.Bytes()[c.head:c.head]
	}
	if d := c.call.Denied; d != nil {
		c.reply.Stream = oncrpc.AppendDenied(c.reply.Stream, c.call.XID, d)
	} else if errors.Is(oncrpc.Serve(r.ctx, r.handlerFor(c.call.RPC.Program), &c.call.RPC, &c.reply), oncrpc.ErrLater) {
		return false
	}
	c.served()
	return true
}

// served is called when the service has answered.
func (c *call) served() {
	if c.early {
		c.arrival.whole(c.r.ctx) // the RDMA Reads still fill the memory of the call
	}
	c.times.Pass(slow.Served)
}

// Answer implements oncrpc.Later. With much data, while other calls are in progress, a worker
// posts the reply, so that the caller reads the next one meanwhile.
func (c *call) Answer(err error) {
	r := c.r
	defer r.busy.Done()
	_ = oncrpc.Answer(r.ctx, &c.call.RPC, &c.reply, err)
	c.served()
	size := 0
	for i := range c.reply.Items {
		size += c.reply.Items[i].Len
	}
	r.mu.Lock()
	aside := size > bulk.Large && r.core.Busy() > 1
	then := r.answerLocked(c)
	if aside {
		r.mu.releaseToWorker()
	} else {
		r.mu.releaseAndPost()
	}
	if then != nil {
		then()
	}
}

// finish sends the reply of a call that was served.
func (c *call) finish() {
	r := c.r
	defer r.busy.Done()
	r.mu.Lock()
	then := r.answerLocked(c)
	r.mu.releaseAndPost()
	if then != nil {
		then()
	}
}

// answerLocked sends a call's reply. It returns what to do once the reply is on its way.
func (r *Responder) answerLocked(c *call) (then func()) {
	then, c.reply.Sent = c.reply.Sent, nil
	if r.dead {
		return nil // freed with the rest
	}
	r.replied(c)
	r.carryOut()
	return then
}

// release frees what the call holds.
func (c *call) release() {
	c.r.releaseReply(c)
	if c.buf != nil {
		c.buf.Release()
		c.buf, c.head = nil, 0
	}
	for _, b := range c.ahead {
		b.Release()
	}
	clear(c.ahead)
	clear(c.sources)
	c.ahead, c.sources, c.stream = c.ahead[:0], c.sources[:0], source{}
}
