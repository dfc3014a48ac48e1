package connector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// callback is a call of the target, which the client answers.
type callback struct {
	mark   [oncrpc.RecordMarkSize]byte
	call   []byte
	answer chan []byte // receives the reply, once
}

// AppendTo implements rpctcp.Outgoing.
func (cb *callback) AppendTo(vec net.Buffers) net.Buffers {
	oncrpc.AppendRecordMark(cb.mark[:0], len(cb.call), true)
	return append(vec, cb.mark[:], cb.call)
}

// Sent implements rpctcp.Outgoing. If a callback is not sent, the session ends.
func (*callback) Sent(error) {}

var (
	errPadded       = errors.New("connector: a call of the target is padded")
	errCallbackXID  = errors.New("connector: a call of the target has the XID of another")
	errNoAnswer     = errors.New("connector: the client does not answer a call of the target")
	errTooLongReply = errors.New("reply to a call of the target is too long")
)

// ServeRPC implements oncrpc.Handler for the calls of the target, which the client answers.
// credits.backchannel bounds the number of such calls at one time.
func (s *session) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Args.Padding.Align != 0 || len(c.Args.Items) > 0 {
		return errPadded // padding that looks like data is not passed on
	}
	cb := &callback{answer: make(chan []byte, 1)}
	cb.call = append(oncrpc.AppendCall(nil, c), c.Args.Stream...)
	if !s.expectAnswer(c.XID, cb) {
		return errCallbackXID
	}
	defer s.forgetAnswer(c.XID)
	s.c.stats.callbacks.Add(1)
	s.out.Send(cb)
	timeout := time.NewTimer(s.c.cfg.CallbackTimeout)
	defer timeout.Stop()
	select {
	case msg := <-cb.answer:
		r.Stream = append(r.Stream[:0], msg...)
		return nil
	case <-timeout.C:
		s.c.stats.unanswered.Add(1)
		return errNoAnswer
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// backLimits returns the largest call of the target and its largest reply, in bytes.
func (s *session) backLimits() (call, reply uint32) {
	info := s.rdma.Info()
	reply, call = info.Inline()
	return call, min(reply, keepStream)
}

func (s *session) expectAnswer(xid uint32, cb *callback) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callbacks[xid] != nil {
		return false
	}
	s.callbacks[xid] = cb
	s.limitLocked()
	s.goOn()
	return true
}

func (s *session) forgetAnswer(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callbacks, xid)
	s.limitLocked()
}

// readReply reads a reply of the client that begins with cl.stream, and gives it to the
// callback that waits for it. A reply for which no callback waits is late or made up, and is
// dropped.
func (s *session) readReply(xid uint32, cl *call, r *reading) error {
	s.mu.Lock()
	cb := s.callbacks[xid]
	s.mu.Unlock()
	if cb == nil {
		s.c.stats.stray.Add(1)
		return s.skip(cl, r)
	}
	for !r.done {
		if len(cl.stream) > keepStream { // replies are sent inline
			return fmt.Errorf("%w: over %d bytes", errTooLongReply, keepStream)
		}
		var err error
		if cl.stream, err = r.more(cl.stream, step); err != nil {
			return err
		}
	}
	var h oncrpc.ReplyHeader
	if _, err := oncrpc.DecodeReply(cl.stream, &h); errors.Is(err, oncrpc.ErrMalformed) {
		return err
	}
	select {
	case cb.answer <- append([]byte(nil), cl.stream...):
	default: // answered already
		s.c.stats.stray.Add(1)
	}
	return nil
}
