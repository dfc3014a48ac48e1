package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Calls from server to client (RFC 8167). They use the roles of the other direction. These
// share the link of the forward direction: its queues, its lock, and its end. All their
// messages are inline.

// ErrNoBackchannel means that calls to the client are off, or that the back channel was not
// opened in time.
var ErrNoBackchannel = errors.New("transport: no back channel")

// maxReverseCalls limits the calls to a client that wait or are in flight.
const maxReverseCalls = 4096

// Backchannel is the state of calls from server to client.
type Backchannel struct {
	// Open means that calls can be made now.
	Open bool
	// Credits is the current grant.
	Credits uint32
}

// caller is a responder's state for calls to its client. link.mu guards it.
type caller struct {
	req      *Requester // nil until there are receives for it
	settings settings.Settings
	config   conn.RequesterConfig
	peerSend uint32
	opened   bool          // by the upper layer
	ready    bool          // opened, and there are receives
	readied  chan struct{} // closed by wake; nil while no call waits for ready
	waiting  int           // calls that wait for ready
	busy     int           // other calls
}

func (v *caller) init(cfg *ResponderConfig) {
	v.settings, v.peerSend = *cfg.Settings, cfg.PeerSend
	v.config.FirstXID = cfg.FirstXID
}

// OpenBackchannel reports that the client is ready for calls, which the upper layer knows.
// It holds until the connection ends.
func (r *Responder) OpenBackchannel() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.caller.opened = true
	r.prepareCalls()
}

// prepareCalls posts the first receives for replies of the client, once calls are wanted
// and the client has chosen a version. Without memory it is tried again at the next tick.
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
	q.do(q.core.Start(q.acts))
	if r.dead || q.core.Short() {
		return
	}
	r.inbound.Replies(q.core)
	v.ready = true
	v.wake()
}

// wake makes the calls that wait for ready look again.
func (v *caller) wake() {
	if v.readied != nil {
		close(v.readied)
		v.readied = nil
	}
}

func (r *Responder) newCaller() *Requester {
	v, s := &r.caller, r.caller.settings.Reverse()
	v.config.Receive = uint32(r.rq.size)
	v.config.MaxReceives = r.maxReverse()
	v.config.Reverse, v.config.Settings = true, &s
	q := &Requester{side: side{link: r.link}, memory: r.memory, reverse: true}
	q.own = q
	q.core = conn.NewRequester(v.config)
	r.core.Beside(q.core)
	r.tellCaller(q)
	q.core.Connected(r.core.AgreedReceive(), v.peerSend)
	return q
}

// setReverse applies new settings to calls to the client.
func (r *Responder) setReverse(s *settings.Settings) {
	v := &r.caller
	v.settings = *s
	if q := v.req; q != nil {
		reverse := s.Reverse()
		if !s.Backchannel() {
			q.do(q.core.Withhold(q.acts))
		}
		q.do(q.core.SetSettings(&reverse, q.acts))
	}
	if !s.Backchannel() {
		v.wake()
	}
	r.prepareCalls()
}

// configureCalls applies what the client announced with the Connection Configuration
// Protocol: it makes Sends of up to maxCall bytes.
func (r *Responder) configureCalls(maxCall uint32) {
	v := &r.caller
	v.peerSend = max(v.peerSend, min(maxCall, settings.InlineMax))
	if v.req != nil {
		v.req.core.Connected(r.core.AgreedReceive(), v.peerSend)
	}
}

// Call calls the client and waits for its results. Everything goes inline. Call also waits
// for OpenBackchannel. It fails with ErrNoBackchannel if ctx ends before that, or at once
// if the settings do not allow such calls. Other errors are those of Requester.Call.
func (r *Responder) Call(ctx context.Context, c *RPC) error {
	c.again = false
	return r.CallAgain(ctx, c)
}

// CallAgain repeats a call that failed because the connection ended. If it was sent before,
// it keeps its XID.
func (r *Responder) CallAgain(ctx context.Context, c *RPC) error {
	if err := r.enter(ctx); err != nil {
		return err
	}
	defer r.leave()
	err := r.caller.req.CallAgain(ctx, c)
	if errors.Is(err, conn.ErrNoBackward) {
		return ErrNoBackchannel
	}
	return err
}

// enter counts a call once it may be made. The connection is not freed until leave.
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
		if v.readied == nil {
			v.readied = make(chan struct{})
		}
		readied := v.readied
		r.mu.Unlock()
		select {
		case <-readied:
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

// mayCall returns why there can be no call to the client now.
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

// leave ends the use of the connection by a call.
func (r *Responder) leave() {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	defer r.busy.Done()
	if r.caller.busy--; r.caller.busy == 0 && !r.dead {
		r.do(r.core.Hold(false, r.acts))
	}
}

// whyEnded returns why a call failed on a connection that has ended.
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

// answered implements role, with an answer of the client. It logs an answer to no call.
func (r *Responder) answered(a *conn.Arrival) {
	q := r.caller.req
	before := q.core.Counters.Stray
	q.answered(a)
	r.do(r.core.Replied(r.acts))
	if q.core.Counters.Stray != before {
		r.refused(conn.Report{Err: conn.ErrUncalled})
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
