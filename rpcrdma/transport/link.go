package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// role handles the events of a link. All methods are called with link.mu held.
type role interface {
	// interrupted is the event that a message for one role arrived while a group for the
	// other role was arriving. The event is for that other role.
	interrupted(a *conn.Arrival)
	// called is the event that a message for the responder arrived.
	called(a *conn.Arrival)
	// answered is the event that a message for the requester arrived.
	answered(a *conn.Arrival)
	// exposed is the event that an opExpose is posted. The role adds its Send.
	exposed(o *op)
	// waits reports whether some of our calls have no answer yet.
	waits() bool
	// alone reports whether the leader may serve n calls that came together: serving one call
	// is the only activity, or there are several.
	alone(n int) bool
	// restLead is the event that calls were answered. It returns true if the leader may
	// rest, because the next call will poll. The goroutine has then given up the lead.
	restLead() bool
	// resized is the event that no receive is smaller than wanted any more.
	resized()
	// ended is the event that an op that is not detached has completed.
	ended(o *op)
	// lost is the event that the connection ended because of err. The queue pair is
	// destroyed, and no event follows. It returns why memory stays open to the peer.
	lost(err error) error
	// ticked is the event that a tick has passed. The connection is up.
	ticked(now time.Time)
	// shrink frees storage that only a busy connection needs.
	shrink()
	// free releases what calls hold. The queue pair is destroyed and all workers are done.
	free()
}

// link is one connection with its queues.
type link struct {
	host   *Host
	id     rdmacm.ID
	cq     verbs.CQ
	qp     verbs.QP
	role   role
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	done   chan struct{}  // closed when everything is freed
	busy   sync.WaitGroup // calls that are served or answered later, and waiters
	log    *slog.Logger   // for refused or dropped messages; nil logs nothing
	tap    *Tap
	slow   slow.Calls // of a responder
	later  bool       // a responder's service answers later and does not wait
	lead   lead
	idling idling
	shares linkShares
	flow   fair.Flow[turnTask] // calls that wait for their turn; guarded by workers.mu

	mu      lock
	inbound conn.Inbound
	sq      sendQueue
	rq      receives
	dead    bool  // no more events
	reason  error // why it ended
	down    func(error)
	gone    func()
	ending  bool // disconnect once everything is posted
	stats   Stats
	sizes   Sizes
	now     time.Time  // time of the last completions
	active  time.Time  // time of the last completions other than a flush
	wc      []verbs.WC // pollBatch entries, for the polling goroutine
	ended   []*op      // ops ended by one completion
	sinks   sinks      // of RDMA Reads under way
	windows windows

	// Read chunks: bytes held, and messages that wait for other messages of this
	// connection.
	fetching int
	waiting  fifo[*fetch]
	reading  int          // bytes that are being read
	ahead    fifo[*fetch] // wait for room in the window; they count in fetching
	far      int          // messages in a row whose Reads took long
	longs    []*long
	early    *fetch // of the long message that a role is taking; nil for other messages

	seen Operation
}

// newLink creates the queues of a connection that is being made. Without an error, the link
// owns id.
func newLink(h *Host, id rdmacm.ID, receiveSize uint32, tap *Tap) (*link, error) {
	l := &link{host: h, id: id, tap: cmp.Or(tap, new(Tap)), done: make(chan struct{}), active: time.Now()}
	sends := min(sendDepth, h.attr.MaxQPWR)
	recvs := l.maxReceives() + l.maxReverse()
	cq, err := h.dev.CreateCQ(min(sends+recvs, h.attr.MaxCQE))
	if err != nil {
		return nil, fmt.Errorf("transport: create CQ: %w", err)
	}
	qp, err := id.CreateQP(h.pd, verbs.QPAttr{
		SendCQ: cq, RecvCQ: cq,
		MaxSendWR: sends, MaxRecvWR: recvs,
		MaxSendSGE: min(maxSGE, h.attr.MaxSGE), MaxRecvSGE: 1,
	})
	if err != nil {
		cq.Close()
		return nil, fmt.Errorf("transport: create QP: %w", err)
	}
	l.cq, l.qp = cq, qp
	l.idling.cq, _ = cq.(verbs.Notifier)
	l.prepareSends(sends)
	l.rq = receives{qp: qp, pool: h.pool, size: int(receiveSize)}
	l.shares = h.shares.join(id.RemoteAddr().Addr())
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// maxReceives returns the number of receives that the queue pair has for the forward
// direction. maxReverse returns it for the reverse direction.
func (l *link) maxReceives() int {
	return min(settings.CreditsLimit+credit.Slack+conn.MaxExposures, l.host.attr.MaxQPWR-l.maxReverse())
}

func (l *link) maxReverse() int {
	return min(settings.ReverseLimit+credit.Slack, l.host.attr.MaxQPWR/4)
}

// abandon frees a link that never came up.
func (l *link) abandon() {
	l.cancel()
	l.qp.Close()
	l.rq.releaseAll()
	l.stopSharing()
	l.cq.Close()
}

// start calls up, then begins to poll. The connection is up.
func (l *link) start(up func()) error {
	if err := l.host.add(l); err != nil {
		return err
	}
	up()
	if !l.sleep() {
		go l.poll()
	}
	return nil
}

// poll handles completions until the connection ends, then frees everything. It returns
// earlier when the connection rests or another goroutine polls instead.
func (l *link) poll() {
	awake, tired := l.awake()
	defer tired()
	l.takeOver()
	for {
		if l.cq.Wait(awake) != nil {
			if l.ctx.Err() != nil || awake.Err() == nil {
				break
			}
			if l.sleep() {
				return
			}
		}
		leads, up := l.drainCQ()
		if !leads {
			return
		}
		if !up {
			break
		}
	}
	l.teardown()
}

// drainCQ handles all available completions, serves a call that arrives alone, and reports
// the outcomes of calls made with Go. leads is false if the goroutine lost the lead. up is
// false if the connection has ended.
func (l *link) drainCQ() (leads, up bool) {
	for {
		n := l.lead.seen
		if l.lead.seen = 0; n == 0 {
			n = l.cq.Poll(l.batch())
		}
		if n == 0 {
			return true, true
		}
		l.mu.Lock()
		l.lead.answered = l.lead.answered || !slices.ContainsFunc(l.wc[:n], isReceive) // only our own work has ended
		l.lead.polling = true
		up = l.handle(n)
		l.lead.polling = false
		here := l.mayServe()
		l.lead.over.away = len(l.lead.over.calls) > 0
		rests := up && l.lead.answered && len(l.lead.handed) == 0 && !l.lead.over.away && l.role.restLead()
		if rests {
			l.lead.answered = false
		}
		l.mu.releaseAndPost()
		if rests || !l.serveHanded(here) || !l.conclude() {
			return false, true
		}
		if !up {
			return true, false
		}
	}
}

// handle handles the first n completions of the batch. It returns false when the connection
// has ended. The caller holds link.mu.
func (l *link) handle(n int) (up bool) {
	l.now, up = time.Now(), true
	for i := 0; i < n && up; i++ {
		up = l.complete(&l.wc[i])
	}
	return up
}

// batch returns the storage for polled completions.
func (l *link) batch() []verbs.WC {
	if l.wc == nil {
		l.wc = make([]verbs.WC, pollBatch)
	}
	return l.wc
}

// complete handles one completion.
func (l *link) complete(wc *verbs.WC) bool {
	switch {
	case l.dead:
		return false
	case wc.Status != verbs.WCSuccess:
		l.dieLocked(l.failure(wc))
		return false
	case wc.Op == verbs.WCRecv:
		l.active = l.now
		at := uint32(wc.ID &^ receiveID)
		l.stats.Receives++
		l.stats.BytesReceived += uint64(wc.ByteLen)
		inv := conn.Invalidation{Did: wc.WithInvalidate, RKey: wc.Invalidated}
		msg := l.rq.bytes(at, wc.ByteLen)
		if o := l.tap.observer.Load(); o != nil {
			l.observeReceive(*o, msg, inv)
		}
		if inv.Did {
			l.stats.RemoteInvalidations++
		}
		if a := l.inbound.Arrive(at, msg, inv); a.Long != nil {
			l.readLong(a.Long)
		} else {
			l.received(a)
		}
	default:
		l.ended = l.sq.completed(l.ended[:0])
		if n := len(l.ended); n == 0 || l.ended[n-1].kind != opFlush {
			l.active = l.now
		}
		for i, o := range l.ended {
			if look := l.tap.observer.Load(); look != nil {
				l.observe(*look, o.wrs, true)
			}
			switch {
			case !l.closeSink(o) || o.detached:
			case o.fetch != nil:
				l.fetchEnded(o)
			default:
				l.role.ended(o)
			}
			o.release()
			l.sq.recycle(o)
			l.ended[i] = nil
		}
	}
	l.pump()
	return !l.dead
}

// received gives a message to its role.
func (l *link) received(a *conn.Arrival) {
	if a.Interrupts {
		l.role.interrupted(a)
	}
	if a.Call {
		l.role.called(a)
	} else {
		l.role.answered(a)
	}
}

// failure returns why a completion failed: the queue pair's error, or else the status.
func (l *link) failure(wc *verbs.WC) error {
	err := l.qp.Err()
	switch {
	case errors.Is(err, syscall.ECONNRESET) && l.role.waits():
		return err
	case errors.Is(err, verbs.ErrDisconnected):
		return nil
	case wc.Status == verbs.WCWRFlushErr && err != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", verbs.StatusError(wc.Status), err)
	}
	return verbs.StatusError(wc.Status)
}

// submit queues an op and posts as much as fits.
func (l *link) submit(o *op) {
	l.mu.moved.Set()
	l.sq.pending.push(o)
	l.pump()
}

// pump posts pending ops in order. It may be called recursively when the role adds
// requests.
func (l *link) pump() {
	for !l.dead && l.sq.pending.len() > 0 {
		o := l.sq.pending.peek()
		if o.kind == opExpose && o.posted == len(o.wrs) {
			if o.posted > 0 && !l.sq.given() {
				return // the windows get their keys when the binds are posted
			}
			l.role.exposed(o)
			continue
		}
		if look := l.tap.observer.Load(); look != nil { // before the peer sees it
			l.observe(*look, o.wrs[o.posted:o.posted+l.sq.room(o)], false)
		}
		if !l.sq.post(o) {
			if !o.waited {
				o.waited = true
				l.stats.SendQueueFull++
			}
			return
		}
		o.times.Pass(slow.Posted)
		if o.kind != opExpose {
			l.sq.pending.pop()
		}
	}
	if l.ending && !l.dead && l.sq.idle() && l.sq.given() {
		l.ending = false
		if err := l.id.Disconnect(); err != nil {
			l.dieLocked(err)
		}
	}
}

// fail ends the connection because of err. nil is an orderly end.
func (l *link) fail(err error) {
	l.mu.Lock()
	defer l.mu.releaseAndPost()
	l.dieLocked(err)
}

// dieLocked records that the connection ended. poll frees it.
func (l *link) dieLocked(err error) {
	if l.dead {
		return
	}
	l.dead = true
	if err != nil {
		l.reason = &Error{Local: l.id.LocalAddr(), Peer: l.id.RemoteAddr(), Reason: err}
	}
	l.cancel()
	if l.idling.tired != nil {
		l.idling.tired()
	}
	switch {
	case l.lead.caller: // the caller stops polling and starts a goroutine that frees everything
	case l.idling.rouse(), l.lead.Take():
		go l.poll()
	}
}

// tick ends a connection without progress, and lets an idle one rest.
func (l *link) tick() {
	l.mu.look()
	if !l.dead && l.sq.stalled() {
		l.dieLocked(ErrStalled)
	}
	if !l.dead {
		l.role.ticked(time.Now())
		l.restIfIdle()
	}
	l.mu.releaseAndPost()
}

// flush completes everything that was sent, as soon as the peer allows, and frees its
// memory.
func (l *link) flush() {
	l.mu.look()
	defer l.mu.releaseAndPost()
	if l.dead {
		return
	}
	l.flushLocked()
}

func (l *link) flushLocked() {
	if o := l.sq.flush(); o != nil {
		l.submit(o)
	}
}

// refused logs that a message of the peer was refused or dropped.
func (l *link) refused(r conn.Report) {
	level := slog.LevelWarn
	if r.Expected {
		level = slog.LevelDebug
	}
	if l.log != nil {
		l.log.Log(context.Background(), level, "message of the peer refused or dropped", "local", l.id.LocalAddr(), "peer", l.id.RemoteAddr(), "reason", r.Err)
	}
}

// teardown destroys the queue pair, waits for the workers, and frees everything that the
// connection held.
func (l *link) teardown() {
	l.fail(verbs.ErrClosed) // unless it has already ended
	if l.down != nil {
		l.down(l.reason) // final, because the connection is dead
	}
	l.settle()
	var leaks []error
	if l.reason == nil && !l.over() {
		leaks = append(leaks, l.id.Disconnect())
	}
	leaks = append(leaks, l.id.Close())
	lost := cmp.Or(l.reason, error(&Error{Local: l.id.LocalAddr(), Peer: l.id.RemoteAddr(), Reason: verbs.ErrDisconnected}))
	l.mu.Lock()
	leaks = append(leaks, l.sinks.closeAll())
	// Once calls are over, their callers may free the memory under the windows.
	leaks = append(leaks, l.windows.closeAll(), l.role.lost(lost))
	l.mu.releaseAndPost()
	l.busy.Wait()
	l.mu.Lock()
	l.role.free()
	l.freeLongs()
	l.sq.releaseAll()
	l.rq.releaseAll()
	l.stopSharing()
	l.mu.releaseAndPost()
	if err := errors.Join(append(leaks, l.cq.Close())...); err != nil {
		l.host.log.Error("connection was not freed", "local", l.id.LocalAddr(), "peer", l.id.RemoteAddr(), "error", err)
	}
	l.host.remove(l)
	close(l.done)
	if l.gone != nil {
		l.gone()
	}
}

// over reports whether the provider has ended the connection.
func (l *link) over() bool {
	select {
	case <-l.id.Disconnected():
		return true
	default:
		return false
	}
}

// buffer returns a buffer of at least n bytes to a caller that cannot wait: from the pool,
// or with its own registration. Without memory it ends the connection and returns nil.
func (l *link) buffer(n int) *regmem.Buffer {
	if b := l.host.pool.TryAlloc(n, regmem.Service); b != nil {
		return b
	}
	l.stats.HardwayRegs++
	b, err := l.host.pool.Single(n)
	if err != nil {
		l.dieLocked(err)
		return nil
	}
	return b
}

// message returns an op with one Send of n bytes, and their memory. Without memory it ends
// the connection and returns no op.
func (l *link) message(kind opKind, n int) (*op, []byte) {
	b := l.buffer(n)
	if b == nil {
		return nil, nil
	}
	o := l.sq.newOp(kind, 0)
	o.hold(b)
	l.addSend(o, o.sgl(b.SGE(0, n)))
	return o, b.Bytes()[:n]
}
