package forward

import (
	"context"
	"errors"
	"net"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

const (
	// maxCallbacks limits the calls of the upstream that wait or are in flight on one
	// connection. NFSv4.1 servers make as many as the client has slots; Linux clients have
	// 16.
	maxCallbacks = 64
	// maxCallback is the largest such call, in bytes. It is sent inline, which allows less.
	maxCallback = 64 << 10
)

// readCall reads a call of the upstream and calls the client. A call that cannot be
// forwarded is answered with SYSTEM_ERR. One with the XID of a call that has no answer yet is
// dropped: the upstream takes one answer for both.
func (s *Session) readCall(xid uint32) error {
	s.f.stats.callbacks.Add(1)
	if !s.beginXID(xid) {
		s.f.stats.callbacksRefused.Add(1)
		return s.skip()
	}
	msg := slices.Clone(s.head[:])
	for {
		left, err := s.records.Fragment()
		if err != nil {
			return err
		}
		if left == 0 {
			break
		}
		if len(msg)+left > maxCallback {
			if err := s.refuseCallback(xid, errSystem); err != nil {
				return err
			}
			return s.skip()
		}
		at := len(msg)
		msg = slices.Grow(msg, left)[:at+left]
		if err := s.records.ReadParts(msg[at:]); err != nil {
			return err
		}
	}
	var c oncrpc.Call
	n, err := oncrpc.DecodeCall(msg, &c)
	if _, ok := errors.AsType[*oncrpc.DeniedError](err); ok {
		return s.refuseCallback(xid, err)
	}
	if err != nil {
		return errNoMessage
	}
	if !s.beginCallback(maxCallbacks) {
		return s.refuseCallback(xid, errSystem)
	}
	s.calling.Go(func() {
		defer s.endCallback()
		s.callback(&c, msg[n:])
	})
	return nil
}

// beginCallback counts one more callback, unless there are most already.
func (s *Session) beginCallback(most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callbacks >= most {
		return false
	}
	s.callbacks++
	return true
}

func (s *Session) endCallback() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callbacks--
}

// callback calls the client once that is possible, and sends the client's answer to the
// upstream. Everything goes inline, as RFC 8167 §5.3 requires, so no binding is used. A call with
// the XID of one that was given up, and that the client may still answer, gets SYSTEM_ERR.
func (s *Session) callback(c *oncrpc.Call, args []byte) {
	ctx, cancel := context.WithTimeout(s.ctx, s.f.cfg.CallbackTimeout)
	defer cancel()
	rpc := rpcrdma.Call{
		Program: c.Program, Version: c.Version, Procedure: c.Procedure, Cred: c.Cred, Verf: c.Verf,
		XID: c.XID, OwnXID: true, Args: args, Whole: true,
	}
	if err := s.callClient(ctx, &rpc); err != nil {
		s.f.stats.callbacksRefused.Add(1)
		s.answer(c.XID, oncrpc.AppendError(nil, c.XID, err))
		return
	}
	s.answer(c.XID, rpc.Reply)
}

// beginXID records the XID of a call of the upstream, unless one without an answer has it.
func (s *Session) beginXID(xid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.callbackXIDs[xid]; there {
		return false
	}
	s.callbackXIDs[xid] = struct{}{}
	return true
}

func (s *Session) endXID(xid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.callbackXIDs, xid)
}

// callClient makes the call once the connection is up.
func (s *Session) callClient(ctx context.Context, rpc *rpcrdma.Call) error {
	select {
	case <-s.up:
		return s.conn.Call(ctx, rpc)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errFlood ends the connection to an upstream that makes more calls than it accepts answers
// for.
var errFlood = errors.New("more calls to the client than are answered")

// refuseCallback answers a call of the upstream instead of the client. The reader must not
// write, because the upstream may be waiting for it to read.
func (s *Session) refuseCallback(xid uint32, err error) error {
	if !s.beginCallback(2 * maxCallbacks) {
		return errFlood
	}
	s.f.stats.callbacksRefused.Add(1)
	s.calling.Go(func() {
		defer s.endCallback()
		s.answer(xid, oncrpc.AppendError(nil, xid, err))
	})
	return nil
}

// answer sends a reply to the upstream and waits until it is written.
func (s *Session) answer(xid uint32, reply []byte) {
	s.endXID(xid) // the upstream may use it again as soon as it has the answer
	record := oncrpc.AppendRecordMark(make([]byte, 0, oncrpc.RecordMarkSize+len(reply)), len(reply), true)
	a := &answer{append(record, reply...), make(chan struct{})}
	s.out.Send(a)
	<-a.sent
}

// answer is a reply to the upstream.
type answer struct {
	record []byte
	sent   chan struct{} // closed when sent
}

// AppendTo implements rpctcp.Outgoing.
func (a *answer) AppendTo(vec net.Buffers) net.Buffers { return append(vec, a.record) }

// Sent implements rpctcp.Outgoing. After an error the session fails, or its reader soon does.
func (a *answer) Sent(error) { close(a.sent) }
