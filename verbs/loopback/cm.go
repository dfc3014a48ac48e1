package loopback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

var _ rdmacm.ID = (*end)(nil)

// Device implements rdmacm.ID.
func (e *end) Device() verbs.Device { return e.provider.dev }

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
	return e.Call(ctx, driver.IDResolved, driver.IDConnected, func(ctx context.Context) error {
		if err := e.request(ctx, p); err != nil {
			return e.giveUp(err)
		}
		select {
		case <-e.answered:
			return e.answer
		case <-ctx.Done():
			return e.giveUp(ctx.Err())
		}
	})
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
	to := e.RemoteAddr()
	l := e.link.fabric.lookup(to)
	if l == nil || l.provider.users.Use() != nil {
		return rdmacm.ErrUnreachable
	}
	e.link.mu.Lock()
	if e.phase != phaseUnanswered { // the queue pair has failed
		defer e.link.mu.Unlock()
		l.provider.users.Unuse()
		return e.answer
	}
	passive := e.link.attach(l.provider, to)
	passive.phase = phaseRequested
	passive.Requested(p)
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

// giveUp ends a connection attempt, unless there is an answer by now. It returns the result of
// Connect.
func (e *end) giveUp(err error) error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	if e.phase == phaseUnanswered {
		e.abort(err)
		e.link.run()
	}
	return e.answer
}

// pending reports whether a request still has no answer.
func (e *end) pending() bool {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.phase == phaseRequested
}

// discard frees a request that no listener took. The peer is not rejected.
func (e *end) discard() {
	e.link.mu.Lock()
	e.phase = phaseEnded
	e.link.mu.Unlock()
	_ = e.Close()
}

// Accept implements rdmacm.ID. The end needs a queue pair. It returns ErrDisconnected if
// the peer has given up.
func (e *end) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	p, err := e.ownParam(p)
	if err != nil {
		return err
	}
	return e.respond(ctx, driver.IDConnected, func() {
		ird, ord := driver.Negotiate(p, e.Peer())
		e.establish(ird, ord)
		e.transmit(message{kind: msgAccept, param: p, ird: ord, ord: ird}, nil)
	})
}

// Reject implements rdmacm.ID.
func (e *end) Reject(ctx context.Context, privateData []byte) error {
	p, err := e.ownParam(rdmacm.ConnParam{PrivateData: privateData})
	if err != nil {
		return err
	}
	return e.respond(ctx, driver.IDFailed, func() {
		e.transmit(message{kind: msgReject, param: p}, nil)
		e.down(verbs.ErrDisconnected)
	})
}

// respond runs f, which answers a request, unless the peer has given up.
func (e *end) respond(ctx context.Context, to driver.IDState, f func()) error {
	return e.Call(ctx, driver.IDRequested, to, func(context.Context) error {
		e.link.mu.Lock()
		defer e.link.mu.Unlock()
		if e.phase != phaseRequested {
			return verbs.ErrDisconnected
		}
		f()
		e.link.run()
		return nil
	})
}

// establish connects the end and its queue pair.
func (e *end) establish(ird, ord int) {
	e.SetNegotiated(ird, ord)
	e.phase, e.qp.ord = phaseUp, ord
	e.qp.Lock()
	defer e.qp.Unlock()
	e.qp.ReadyLocked()
}

// accepted handles the peer's acceptance.
func (e *end) accepted(m *message) {
	if e.phase == phaseUnanswered {
		e.SetPeer(m.param)
		e.establish(m.ird, m.ord)
		e.settle(nil)
	}
}

// rejected handles the peer's rejection.
func (e *end) rejected(m *message) {
	if e.phase == phaseUnanswered {
		e.SetPeer(m.param)
		e.down(&rdmacm.RejectedError{PrivateData: m.param.PrivateData})
	}
}

// aborted handles the end of the connection by the peer, or of its attempt to connect.
func (e *end) aborted(m *message) {
	if e.phase == phaseRequested {
		e.down(verbs.ErrDisconnected)
		return
	}
	e.down(m.reason)
}

// settle has Connect return.
func (e *end) settle(err error) {
	e.answer = err
	close(e.answered)
}
