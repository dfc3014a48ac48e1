package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

// Calls from server to client (RFC 8167). They run in the roles of the other
// direction, which share the link with the role that it was made for: its
// queues, its lock, its end. All their messages are inline.

// ErrNoBackchannel means that calls to the client are not on, or that nobody
// opened the back channel in time.
var ErrNoBackchannel = errors.New("transport: no back channel")

// maxReverseCalls is the most calls to a client that wait or are in flight.
const maxReverseCalls = 4096

// Backchannel is the state of calls from server to client.
type Backchannel struct {
	// Open: they can be made now.
	Open bool
	// Credits is the grant in force.
	Credits uint32
}

// caller is what a responder has for calls to its client. link.mu guards it.
type caller struct {
	req      *Requester // nil until there are receives for it
	settings conn.Settings
	config   conn.RequesterConfig
	peerSend uint32
	opened   bool          // by the upper layer
	ready    bool          // and there are receives
	readied  chan struct{} // closed then
	waiting  int           // calls that wait for that
	busy     int           // other calls
}

func (v *caller) init(cfg *ResponderConfig) {
	v.settings, v.peerSend = *cfg.Settings, cfg.PeerSend
	v.config.FirstXID = cfg.FirstXID
	v.readied = make(chan struct{})
}

// OpenBackchannel says that the client is ready for calls, as the upper layer
// knows. It stays so while the connection lives.
func (r *Responder) OpenBackchannel() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.caller.opened = true
	r.prepareCalls()
}

// prepareCalls posts the first receives for replies of the client, once they
// are wanted and the client has chosen a version. Without memory it is tried
// again with the next tick.
func (r *Responder) prepareCalls() {
	v := &r.caller
	if r.dead || v.ready || !v.opened || !v.settings.Backchannel() {
		return
	}
	version, chosen := r.core.Version()
	if !chosen {
		return
	}
	if v.req == nil {
		r.core.Speak(version)
		v.config.Version = version
		v.req = r.newCaller()
	}
	q := v.req
	q.acts = q.core.Start(q.acts)
	q.carryOut()
	if r.dead || q.core.Short() {
		return
	}
	r.inbound.Replies(q.core)
	v.ready = true
	close(v.readied)
}

func (r *Responder) newCaller() *Requester {
	v, s := &r.caller, r.caller.settings.Reverse()
	v.config.Receive = uint32(r.rq.size)
	v.config.ToldSend = conn.InlineMax // the forward direction knows the bound
	v.config.MaxReceives = r.maxReverse()
	v.config.Reverse, v.config.Settings = true, &s
	q := &Requester{side: side{link: r.link}, memory: r.memory, reverse: true}
	q.own = q
	q.core = conn.NewRequester(v.config)
	r.tellCaller(q)
	q.core.Connected(r.core.PeerReceive(), v.peerSend)
	return q
}

// setReverse takes new settings for calls to the client.
func (r *Responder) setReverse(s *conn.Settings) {
	v := &r.caller
	v.settings = *s
	if q := v.req; q != nil {
		reverse := s.Reverse()
		q.acts = q.core.SetSettings(&reverse, q.acts)
		q.carryOut()
	}
	r.prepareCalls()
}

// configureCalls takes what the client told through the Connection
// Configuration Protocol: it makes Sends of up to maxCall bytes.
func (r *Responder) configureCalls(maxCall uint32) {
	v := &r.caller
	v.peerSend = max(v.peerSend, min(maxCall, conn.InlineMax))
	if v.req != nil {
		v.req.core.Connected(r.core.PeerReceive(), v.peerSend)
	}
}

// Call calls the client and waits for its results; everything goes inline. It
// waits for OpenBackchannel, too: it fails with ErrNoBackchannel when ctx ends
// before that, and at once while the settings allow no such calls. Other errors
// are those of Requester.Call.
func (r *Responder) Call(ctx context.Context, c *RPC) error {
	c.again = false
	return r.CallAgain(ctx, c)
}

// CallAgain is Call for a call that failed on a connection that ended. If it
// had been sent, it has the same XID again.
func (r *Responder) CallAgain(ctx context.Context, c *RPC) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	err := r.caller.req.CallAgain(both, c)
	if errors.Is(err, conn.ErrNoBackward) {
		return ErrNoBackchannel
	}
	if errors.Is(err, context.Canceled) && ctx.Err() == nil { // in want of memory
		return r.whyEnded()
	}
	return err
}

// enter counts a call once it may be made. The connection is not freed until
// it leaves.
func (r *Responder) enter(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	for v := &r.caller; ; {
		if err := r.mayCall(); err != nil {
			return err
		}
		if v.ready {
			r.busy.Add(1)
			v.busy++
			r.acts = r.core.Hold(true, r.acts)
			return nil
		}
		v.waiting++
		r.mu.Unlock()
		select {
		case <-v.readied:
		case <-ctx.Done():
		case <-r.ctx.Done():
		}
		r.mu.Lock()
		v.waiting--
		if err := ctx.Err(); err != nil && !v.ready && !r.dead {
			return fmt.Errorf("%w: %w", ErrNoBackchannel, err)
		}
	}
}

// mayCall says why there can be no call to the client now.
func (r *Responder) mayCall() error {
	v := &r.caller
	switch {
	case r.dead:
		return r.endedLocked()
	case r.draining:
		return ErrDraining
	case !v.settings.Backchannel() || r.core.NoBackward():
		return ErrNoBackchannel
	case v.waiting+v.busy >= maxReverseCalls:
		return conn.ErrTooManyCalls
	}
	return nil
}

// leave counts a call less.
func (r *Responder) leave() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	defer r.busy.Done()
	if r.caller.busy--; r.caller.busy == 0 && !r.dead {
		r.acts = r.core.Hold(false, r.acts)
		r.carryOut()
	}
}

// whyEnded is why a call failed on a connection that has ended.
func (l *link) whyEnded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endedLocked()
}

func (l *link) endedLocked() error {
	if l.reason != nil {
		return l.reason
	}
	return ErrClosed
}

// answered implements role, with an answer of the client. One to no call is
// logged.
func (r *Responder) answered(a *conn.Arrival) {
	q := r.caller.req
	before := q.core.Counters.Stray
	q.answered(a)
	if q.core.Counters.Stray != before {
		r.refused(conn.ErrUncalled)
	}
}

func (v *caller) state() (b Backchannel) {
	if v.ready {
		b.Open, b.Credits = v.settings.Backchannel(), v.req.core.Granted()
	}
	return b
}

// count adds the calls to the client to s.
func (v *caller) count(s *Stats) {
	if v.req == nil {
		return
	}
	c := &v.req.core.Counters
	s.ReverseCalls, s.ReverseReplies = c.Calls, c.Replies
	s.Errors += c.Errors
	s.Ignored += c.Stray
	s.BadXIDs += c.Stray
}
