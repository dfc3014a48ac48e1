package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// What a client is told of a call that is not forwarded, or not answered.
var (
	errXIDInUse = errors.New("forward: another call has the XID")
	errPadded   = errors.New("forward: padded arguments that no binding can tell from their padding")
	errGarbage  = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	errSystem   = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}
	roundup     [xdr.Unit]byte
)

const (
	headerLength = 512 // usually enough for a call's header, in bytes
	nfsProgram   = 100003
	compoundProc = 1 // NFSPROC4_COMPOUND
)

// call is a call in flight. It is used again.
type call struct {
	s        *Session
	xid      uint32
	plan     ulb.Plan
	reduces  bool   // the reply is walked
	header   []byte // record mark and call header; its storage is kept
	args     *oncrpc.Payload
	pads     []walk.Pad // of the arguments; the upstream gets none
	reply    *oncrpc.Reply
	ctx      context.Context
	timer    *time.Timer
	began    time.Time     // to be sent
	finished chan struct{} // gets one value when neither sending nor awaiting

	// refusal is what the reader has the client told in place of the reply.
	refusal error

	// Under s.mu.
	sending, awaiting bool
	err               error // why there is no reply
}

func newCall(s *Session) *call {
	c := &call{s: s, header: make([]byte, 0, headerLength), finished: make(chan struct{}, 1)}
	c.plan.Limits = s.limits
	c.timer = time.NewTimer(time.Hour)
	c.timer.Stop()
	return c
}

// ServeRPC implements oncrpc.Handler. The reply is the upstream's as it is; one
// that can't be taken apart is SYSTEM_ERR. Where there is none the connection
// ends.
func (s *Session) ServeRPC(ctx context.Context, in *oncrpc.Call, reply *oncrpc.Reply) error {
	c := s.take()
	defer s.give(c)
	if err := c.prepare(ctx, in, reply); err != nil {
		s.f.stats.refused.Add(1)
		return err
	}
	err := s.register(c)
	if errors.Is(err, errXIDInUse) {
		return err
	}
	if err == nil {
		s.f.stats.calls.Add(1)
		c.began = time.Now()
		s.out.Send(c)
		in.Waits()
		err = c.wait(ctx)
	}
	if err != nil {
		<-ctx.Done() // the connection ends: nobody is to be told anything else
		return err
	}
	if c.refusal != nil {
		s.f.stats.badReplies.Add(1)
		return c.refusal
	}
	if c.opens(in) {
		reply.Sent = s.open
	}
	return nil
}

// opens says whether the call and its reply have opened the back channel. Where
// RPCSEC_GSS hides that, as with a kernel client's krb5i, they may have: then it
// is left to the upstream not to call before.
func (c *call) opens(in *oncrpc.Call) bool {
	if c.plan.Protected() {
		return in.Program == nfsProgram && in.Version == 4 && in.Procedure == compoundProc
	}
	o := c.plan.Back.Opened
	return c.reduces && (o == ulb.OpenedSession || o == ulb.OpenedBind)
}

// prepare plans for the call and its reply and encodes the header.
//
// A call that its binding can't walk is the upstream's to judge and goes out as
// it came; its reply is not reduced unless all that is wrong is an operation
// that is not known. But items apart that are none of the binding's, or not as
// long as the arguments say, may not be (RFC 8166 §6): GARBAGE_ARGS.
func (c *call) prepare(ctx context.Context, in *oncrpc.Call, reply *oncrpc.Reply) error {
	err := c.plan.Call(bindings, in)
	if c.pads = c.pads[:0]; in.Args.Padding.Align != 0 {
		pads, ok := c.plan.Pads()
		if !ok {
			return errPadded
		}
		c.pads = append(c.pads, pads...)
	}
	c.reduces = err == nil || errors.Is(err, ulb.ErrUnknown)
	if len(in.Args.Items) > 0 && (!c.reduces || !itemsFit(&in.Args)) {
		return errGarbage
	}
	in.Args.Claim()
	c.xid, c.ctx, c.args, c.reply = in.XID, ctx, &in.Args, reply
	c.refusal, c.err = nil, nil
	c.header = oncrpc.AppendCall(c.header[:oncrpc.RecordMarkSize], in)
	oncrpc.AppendRecordMark(c.header[:0], c.size(), true)
	return nil
}

// itemsFit says whether each item is as long as the word before it says, with
// or without roundup: also where no binding looks.
func itemsFit(args *oncrpc.Payload) bool {
	for i := range args.Items {
		it := &args.Items[i]
		if it.Pos < xdr.Unit || it.Pos > len(args.Stream) {
			return false
		}
		d := xdr.NewDecoder(args.Stream[it.Pos-xdr.Unit : it.Pos])
		if n, k := int64(d.Uint32()), int64(it.Len()); k < n || k > (n+xdr.Unit-1)&^(xdr.Unit-1) {
			return false
		}
	}
	return true
}

// size is the length of the record without its mark.
func (c *call) size() int {
	n := len(c.header) - oncrpc.RecordMarkSize + len(c.args.Stream)
	for i := range c.args.Items {
		n += xdr.Padded(c.args.Items[i].Len())
	}
	for i := range c.pads {
		n -= c.pads[i].Len
	}
	return n
}

// AppendTo implements rpctcp.Outgoing: the items are written from where they
// are, between the pieces of the stream, and padding is left out. No call has
// both (RFC 5666 §3.9: padded messages have no read chunks).
func (c *call) AppendTo(vec net.Buffers) net.Buffers {
	vec = append(vec, c.header)
	at := 0
	for i := range c.args.Items {
		it := &c.args.Items[i]
		vec = appendPiece(vec, c.args.Stream[at:it.Pos])
		at = it.Pos
		vec = appendPiece(vec, it.Data)
		for _, part := range it.More {
			vec = appendPiece(vec, part)
		}
		vec = appendPiece(vec, roundup[:xdr.Pad(it.Len())])
	}
	for _, pad := range c.pads {
		vec = appendPiece(vec, c.args.Stream[at:pad.Off])
		at = pad.Off + pad.Len
	}
	return appendPiece(vec, c.args.Stream[at:])
}

func appendPiece(vec net.Buffers, piece []byte) net.Buffers {
	if len(piece) == 0 {
		return vec
	}
	return append(vec, piece)
}

// Sent implements rpctcp.Outgoing; an error has failed the session already. How
// long it took says how busy the upstream is.
func (c *call) Sent(error) {
	waited := time.Since(c.began)
	c.s.mu.Lock()
	conn := c.s.conn
	c.sending = false
	c.finishLocked()
	c.s.mu.Unlock()
	if conn != nil {
		conn.Waited(waited)
	}
}

// answeredLocked ends the waiting for a reply.
func (c *call) answeredLocked(err error) {
	c.err = err
	c.awaiting = false
	c.finishLocked()
}

// finishLocked wakes the caller when nothing of the call is used any more.
func (c *call) finishLocked() {
	if !c.sending && !c.awaiting {
		c.finished <- struct{}{}
	}
}

// wait waits for the reply, or for the end of everything. The call's memory is
// not used any more afterwards.
func (c *call) wait(ctx context.Context) error {
	timeout := c.s.f.cfg.CallTimeout
	c.timer.Reset(timeout)
	defer c.timer.Stop()
	select {
	case <-c.finished:
		return c.err
	case <-ctx.Done():
		c.s.fail(errClosed)
	case <-c.timer.C:
		c.s.f.stats.timeouts.Add(1)
		c.s.fail(fmt.Errorf("no answer to call %#x within %v", c.xid, timeout))
	}
	<-c.finished
	if c.err == nil { // it was arriving
		c.err = errClosed
	}
	return c.err
}

// forget lets go of what the call refers to.
func (c *call) forget() {
	c.args, c.reply, c.ctx = nil, nil, nil
}
