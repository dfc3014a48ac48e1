package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

var _ rdmacm.ID = (*end)(nil)

func (e *end) Device() verbs.Device       { return e.provider.dev }
func (e *end) LocalAddr() netip.AddrPort  { return e.local }
func (e *end) RemoteAddr() netip.AddrPort { return e.remote }

// Peer returns the peer's parameters; the private data is shared by all callers.
func (e *end) Peer() rdmacm.ConnParam {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.param
}

func (e *end) Negotiated() (ird, ord int) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.ird, e.ord
}

// ownParam checks and limits what an end announces to its peer.
func (e *end) ownParam(p rdmacm.ConnParam) (rdmacm.ConnParam, error) {
	p, err := e.provider.dev.CheckParam(p, rdmacm.MaxPrivateData)
	if err != nil {
		return p, fmt.Errorf("loopback: %w", err)
	}
	p.PrivateData = bytes.Clone(p.PrivateData)
	return p, nil
}

// Connect implements rdmacm.ID. The end needs a queue pair.
func (e *end) Connect(ctx context.Context, p rdmacm.ConnParam) error {
	p, err := e.ownParam(p)
	if err != nil {
		return err
	}
	if err := e.beginConnect(); err != nil {
		return err
	}
	if err := e.request(ctx, p); err != nil {
		return e.giveUp(err)
	}
	select {
	case <-e.answered:
		return e.result()
	case <-ctx.Done():
		return e.giveUp(ctx.Err())
	}
}

func (e *end) beginConnect() error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	switch {
	case e.closed:
		return verbs.ErrClosed
	case e.qp == nil:
		return fmt.Errorf("loopback: connect without a QP: %w", verbs.ErrInvalid)
	case e.phase != phaseIdle:
		return fmt.Errorf("loopback: connect: %w", verbs.ErrQPState)
	}
	e.phase = phaseConnecting
	return nil
}

// request delivers the connection request to the listener.
func (e *end) request(ctx context.Context, p rdmacm.ConnParam) error {
	f := e.link.fabric
	if err := f.pause(ctx); err != nil {
		return err
	}
	if err := e.offer(p); err != nil {
		return errors.Join(f.pause(ctx), err)
	}
	return nil
}

func (e *end) offer(p rdmacm.ConnParam) error {
	f := e.link.fabric
	if err := f.connectFault(e.local, e.remote); err != nil {
		return err
	}
	l := f.lookup(e.remote)
	if l == nil || l.provider.users.Use() != nil {
		return rdmacm.ErrUnreachable
	}
	e.link.mu.Lock()
	if e.phase != phaseConnecting {
		e.link.mu.Unlock()
		l.provider.users.Unuse()
		return e.result()
	}
	passive := e.link.attach(l.provider, e.remote)
	passive.phase = phaseRequested
	passive.param = p
	e.link.mu.Unlock()
	err := l.offer(passive)
	if err != nil {
		passive.discard()
	}
	return err
}

// pause waits for the one-way delay.
func (f *Fabric) pause(ctx context.Context) error {
	d := f.Delay()
	if d == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// giveUp ends a connection attempt, unless it has ended meanwhile.
func (e *end) giveUp(err error) error {
	e.link.mu.Lock()
	if e.phase == phaseConnecting {
		e.abort(err)
		e.link.run()
	}
	e.link.mu.Unlock()
	return e.result()
}

// result returns the result of Connect.
func (e *end) result() error {
	<-e.answered
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.answer
}

// pending reports whether a request still has no answer.
func (e *end) pending() bool {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.phase == phaseRequested
}

// discard frees a request that no listener accepted.
func (e *end) discard() {
	e.link.mu.Lock()
	e.phase, e.closed = phaseEnded, true
	e.link.mu.Unlock()
	e.provider.users.Unuse()
}

// Accept implements rdmacm.ID. The end needs a queue pair. It returns ErrDisconnected if
// the peer has given up.
func (e *end) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	p, err := e.ownParam(p)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	if err := e.answerable(); err != nil {
		return err
	}
	if e.qp == nil {
		return fmt.Errorf("loopback: accept without a QP: %w", verbs.ErrInvalid)
	}
	e.ird, e.ord = driver.Negotiate(p, e.param)
	e.phase = phaseUp
	e.transmit(message{kind: msgAccept, param: p, ird: e.ord, ord: e.ird}, nil)
	e.link.run()
	return nil
}

// answerable reports whether a request can be accepted or rejected.
func (e *end) answerable() error {
	switch {
	case e.closed:
		return verbs.ErrClosed
	case e.phase == phaseRequested:
		return nil
	case e.phase == phaseEnded:
		return verbs.ErrDisconnected
	}
	return fmt.Errorf("loopback: answer: %w", verbs.ErrQPState)
}

// accepted handles the peer's acceptance.
func (e *end) accepted(m *message) {
	if e.phase != phaseConnecting {
		return
	}
	e.param, e.ird, e.ord = m.param, m.ird, m.ord
	e.phase = phaseUp
	e.settle(nil)
}

func (e *end) Reject(ctx context.Context, privateData []byte) error {
	p, err := e.ownParam(rdmacm.ConnParam{PrivateData: privateData})
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	if err := e.answerable(); err != nil {
		return err
	}
	e.transmit(message{kind: msgReject, param: p}, nil)
	e.down(verbs.ErrDisconnected)
	e.link.run()
	return nil
}

// rejected handles the peer's rejection.
func (e *end) rejected(m *message) {
	if e.phase == phaseConnecting {
		e.param = m.param
		e.down(&rdmacm.RejectedError{PrivateData: m.param.PrivateData})
	}
}

// settle ends Connect with a result.
func (e *end) settle(err error) {
	e.answer = err
	close(e.answered)
}
