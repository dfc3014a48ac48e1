package forward

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Errors that a client gets for a call that is not forwarded or not answered.
var (
	errXIDInUse = errors.New("forward: another call has the XID")
	errPadded   = errors.New("forward: padded arguments that no binding can tell from their padding")
	errGarbage  = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	errSystem   = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}
	errNoTLS    = &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthBadCred}
	roundup     [xdr.Unit]byte
)

const (
	nfsProgram   = programs.NFS
	headerLength = 512 // usually enough for a call's header, in bytes
	compoundProc = 1   // NFSPROC4_COMPOUND
)

// call is a call in flight. It is reused.
type call struct {
	s       *Session
	xid     uint32
	plan    ulb.Plan
	reduces bool   // the reply is walked
	header  []byte // record mark and call header; its storage is kept
	in      *oncrpc.Call
	args    *oncrpc.Payload
	arrival oncrpc.Arrival // of the items; nil means that they are there
	arrived int            // bytes of the items that are there
	pads    []walk.Pad     // of the arguments; they are not sent to the upstream
	reply   *oncrpc.Reply
	ctx     context.Context
	began   time.Time // when sending was requested, later by the time for which items had to arrive
	arrives int64     // Session.arrives when sending was requested

	// refusal, if set, is the client's answer instead of the reply.
	refusal error

	// Under s.mu.
	sending, awaiting bool      // with neither, the call's memory is no longer used
	replied           bool      // it counts in s.replied
	sent              time.Time // when it was sent; zero before that
	err               error     // why there is no reply
}

func newCall(s *Session) *call {
	c := &call{s: s, header: make([]byte, 0, headerLength)}
	c.plan.Limits = s.limits
	return c
}

// ServeRPC implements oncrpc.Handler. It sends the call to the upstream and does not wait
// for the reply, unless it waits for the call's items. The goroutine that reads the reply
// answers the call with it, unchanged. A reply that cannot be parsed becomes SYSTEM_ERR.
// Without a reply, the client's connection ends.
//
// AUTH_TLS is denied. An upstream with TLS would take what follows for a handshake.
func (s *Session) ServeRPC(ctx context.Context, in *oncrpc.Call, reply *oncrpc.Reply) error {
	switch {
	case in.Later == nil:
		return errNoConn
	case in.Cred.Flavor == oncrpc.FlavorTLS:
		return errNoTLS
	}
	c := s.take()
	err := c.prepare(ctx, in, reply)
	if err != nil {
		s.f.stats.refused.Add(1)
	} else {
		err = s.register(c)
	}
	switch {
	case err != nil:
		s.give(c)
		return err
	case !c.sending: // the session is over
		s.ended(c, c.err)
		return oncrpc.ErrLater
	case c.arrival != nil:
		in.Waits()
	}
	s.f.stats.calls.Add(1)
	s.out.Send(c)
	return oncrpc.ErrLater
}

// answer answers the call, whose memory is no longer used. The call may be reused then.
func (c *call) answer() {
	s, later, err := c.s, c.in.Later, c.err
	c.reply.Upstream = time.Since(c.began)
	switch {
	case err != nil:
	case c.refusal != nil:
		s.f.stats.badReplies.Add(1)
		err = c.refusal
	case c.opens():
		c.reply.Sent = s.open
	}
	s.give(c)
	later.Answer(err)
}

// opens reports whether the call and its reply have opened the back channel. If RPCSEC_GSS
// hides that, as with a Linux client's krb5i, it returns true for every COMPOUND. The
// upstream must then not call too early.
func (c *call) opens() bool {
	if in := c.in; c.plan.Protected() {
		return in.Program == nfsProgram && in.Version == 4 && in.Procedure == compoundProc
	}
	o := c.plan.Opened
	return c.reduces && (o == ulb.OpenedSession || o == ulb.OpenedBind)
}

// prepare plans for the call and its reply and encodes the header.
//
// If the binding cannot walk a call, the upstream must judge it: it is sent unchanged. Its
// reply is not reduced, unless the only problem is an unknown operation. But separate items
// that the binding does not have, or with a length other than in the arguments, are refused
// (RFC 8166 §6): GARBAGE_ARGS.
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
	c.xid, c.ctx, c.in, c.args, c.reply = in.XID, ctx, in, &in.Args, reply
	c.arrival, c.arrived = in.Arrival, 0
	c.refusal, c.err = nil, nil
	c.header = oncrpc.AppendCall(c.header[:oncrpc.RecordMarkSize], in)
	oncrpc.AppendRecordMark(c.header[:0], c.size(), true)
	return nil
}

// itemsFit reports whether each item has the length of the word before it, with or without
// roundup padding. It also checks items without a binding.
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

// size returns the length of the record without its mark.
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

// AppendTo implements rpctcp.Outgoing. It appends the items, without a copy, between the
// pieces of the stream, and omits padding. No call has both (RFC 5666 §3.9: padded messages
// have no read chunks).
func (c *call) AppendTo(vec net.Buffers) net.Buffers {
	vec = append(vec, c.header)
	at := 0
	for i := range c.args.Items {
		it := &c.args.Items[i]
		vec = rpctcp.AppendPiece(vec, c.args.Stream[at:it.Pos])
		at = it.Pos
		vec = rpctcp.AppendPiece(vec, it.Data)
		for _, part := range it.More {
			vec = rpctcp.AppendPiece(vec, part)
		}
		vec = rpctcp.AppendPiece(vec, roundup[:xdr.Pad(it.Len())])
	}
	for _, pad := range c.pads {
		vec = rpctcp.AppendPiece(vec, c.args.Stream[at:pad.Off])
		at = pad.Off + pad.Len
	}
	return rpctcp.AppendPiece(vec, c.args.Stream[at:])
}

// Whole implements rpctcp.Arriving.
func (c *call) Whole() bool { return c.arrival == nil }

// Arrived implements rpctcp.Arriving. It waits for the first data before anything is sent. The
// end of the client's connection is no loss of the upstream.
func (c *call) Arrived(sent int) (int, error) {
	for {
		if n := c.ready(); c.arrived > 0 && n > sent {
			return n, nil
		}
		began := time.Now()
		n, err := c.arrival.Wait(c.ctx, c.arrived)
		c.s.arrives.Add(int64(time.Since(began)))
		if err != nil && c.ctx.Err() != nil {
			return 0, errClosed
		}
		if err != nil {
			return 0, err
		}
		c.arrived = n
	}
}

// ready returns how much of the record is there, with its mark, in bytes. Padding is removed
// only from calls that are whole.
func (c *call) ready() int {
	n, at, have := len(c.header), 0, c.arrived
	for i := range c.args.Items {
		it := &c.args.Items[i]
		n += it.Pos - at
		at = it.Pos
		if have < it.Len() {
			return n + have
		}
		n += xdr.Padded(it.Len())
		have -= it.Len()
	}
	return n + len(c.args.Stream) - at
}

// Sent implements rpctcp.Outgoing. After an error the session fails, or its reader soon does. The
// time that sending took shows how busy the upstream is, without the time for which items of
// this call, or of one before it, had to arrive.
func (c *call) Sent(error) {
	now := time.Now()
	s := c.s
	s.mu.Lock()
	conn := s.conn
	if c.began = c.began.Add(time.Duration(s.arrives.Load() - c.arrives)); c.began.After(now) {
		c.began = now // a wait had begun before
	}
	took := now.Sub(c.began)
	c.sending, c.sent = false, now // from here on others may answer and reuse the call
	if c.awaiting {
		s.armLocked(s.f.cfg.CallTimeout)
	}
	over, replied := s.overLocked(c), c.replied
	c.replied = false
	s.mu.Unlock()
	if conn != nil {
		conn.Waited(took)
	}
	if over {
		c.answer()
	}
	if replied {
		s.replied.Done()
	}
}

// forget drops the call's references.
func (c *call) forget() {
	c.in, c.args, c.reply, c.ctx, c.arrival = nil, nil, nil, nil, nil
}
