package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// RPC is a call and, when it has returned, its results. It is reusable. After an error the
// results may be those of an earlier call. Sizes are in bytes.
type RPC struct {
	Program, Version, Procedure uint32
	Cred, Verf                  oncrpc.Auth

	// XID is chosen by the caller with OwnXID, which gateways need. No other call in flight
	// on the connection may have it (ErrXIDInUse). Without OwnXID the call gets one.
	XID    uint32
	OwnXID bool

	// Args is the XDR stream of the arguments, with the length words of Items, but without
	// their bytes and padding.
	Args []byte
	// Items are the DDP-eligible arguments, in order of Pos, their position in Args. The
	// peer reads memory from Alloc without a copy if it goes by RDMA Read. The caller keeps
	// owning the memory.
	Items []oncrpc.ReplyItem

	// MaxReply is the largest possible size of the results without the DDP-eligible ones.
	// If it is too small, long replies fail unless extensions.read_replies is on at both
	// ends.
	MaxReply int
	// Results are the DDP-eligible results that may be placed directly, in the order of the
	// reply.
	Results []Result

	// xid is, if again is set, the XID with which the call was sent on a connection that
	// was lost.
	xid   uint32
	again bool

	// Reply is set to the XDR stream of the results, without the bytes and the padding of
	// results placed directly. Its storage is reused.
	Reply []byte

	// Whole makes Reply the whole RPC reply, with header and verifier. Call then returns no
	// error for a reply that says that the call was denied or not accepted.
	Whole bool
	// Long is set, with Whole, to memory to which the reply was written. The message is its
	// first LongLen bytes, and Reply is empty. The caller must release it.
	Long    oncrpc.Buffer
	LongLen int
}

// Result is memory for one DDP-eligible result.
type Result struct {
	// Buf holds up to Max bytes of the result. It needs Max+3 bytes if Max is no multiple
	// of 4, because padding may be written too. The peer places data directly into memory
	// from Alloc.
	Buf oncrpc.Buffer
	Max int
	// Apart is set to the number of bytes placed in Buf, or to 0 if the result is in Reply.
	// It may exceed the result's length by padding.
	Apart int
	// Find returns the offset of the result's length word in the stream of the results, or
	// -1 if this reply has none. The results before this one are final: their bytes are in
	// the stream, or in Buf if Apart is set. If the peer may pad replies (extensions.msgp),
	// each result needs Find; otherwise padded replies fail. The caller never sees padding.
	Find func(results []byte) int
	// Asked is the operation of the call that asks for the result: a span of the arguments'
	// XDR stream, items included. It is empty if the arguments are one operation. With it a
	// server of version 2 cannot mistake the memory for one operation's result for that of
	// another.
	Asked xdr.Span
}

// Call makes a call and waits for its results. It returns an *oncrpc.AcceptError or
// *oncrpc.DeniedError if the server answered so, a *conn.PeerError if the server's
// transport did, ctx.Err() if ctx ended first, or an *Error if the connection ended. When
// it returns, the peer no longer has access to the call's memory.
func (r *Requester) Call(ctx context.Context, c *RPC) error {
	c.again = false
	return r.CallAgain(ctx, c)
}

// CallAgain repeats a call that failed because the connection ended. If it was sent before,
// it keeps its XID.
func (r *Requester) CallAgain(ctx context.Context, c *RPC) error {
	p, err := r.acquire(nil)
	if err != nil {
		return err
	}
	defer r.busy.Done()
	defer r.release(p)
	return r.attempts(ctx, p, c)
}

// attempts makes the call until its plan stays valid. conn.Requester.Plan limits the
// attempts.
func (r *Requester) attempts(ctx context.Context, p *pending, c *RPC) error {
	for ctx.Err() == nil {
		if err := r.attempt(ctx, p, c); !errors.Is(err, conn.ErrReplan) {
			return err
		}
		p.freeMemory()
	}
	return ctx.Err()
}

// attempt makes the call once.
func (r *Requester) attempt(ctx context.Context, p *pending, c *RPC) error {
	if err := r.prepare(ctx, p, c); err != nil {
		return err
	}
	if err := r.begin(p); err != nil {
		return err
	}
	r.await(ctx, p)
	err := r.outcome(p)
	if errors.Is(err, conn.ErrCanceled) {
		return ctx.Err()
	}
	return err
}

// prepare plans the call, gets its memory, which may wait, and composes its message.
func (r *Requester) prepare(ctx context.Context, p *pending, c *RPC) error {
	if err := c.check(); err != nil {
		return r.unmarshaled(err)
	}
	p.describe(c)
	r.mu.Lock()
	err := r.core.Plan(&p.out)
	r.mu.Unlock()
	if err != nil {
		return r.unmarshaled(err)
	}
	if err := r.provide(ctx, p, c); err != nil {
		return err
	}
	p.rpc = c
	p.compose(c)
	p.reply = p.reply[:0]
	return nil
}

// outcome returns the outcome of a call that is over.
func (r *Requester) outcome(p *pending) error {
	if p.out.Sent {
		p.rpc.xid, p.rpc.again = p.out.XID, true
	}
	if p.out.Err != nil {
		return p.out.Err
	}
	return r.results(p, p.rpc)
}

// ErrInvalidCall means that an RPC is inconsistent.
var ErrInvalidCall = errors.New("transport: invalid call")

// callHeaderSize is the size of an RPC call header with empty credential and verifier, in
// bytes.
const callHeaderSize = 40

// check validates the items and results.
func (c *RPC) check() error {
	if i := oncrpc.Misplaced(c.Items, len(c.Args)); i >= 0 {
		return fmt.Errorf("%w: item %d", ErrInvalidCall, i)
	}
	for i := range c.Results {
		if res := &c.Results[i]; !oncrpc.Holds(res.Buf, res.Max) {
			return fmt.Errorf("%w: result %d", ErrInvalidCall, i)
		}
	}
	if len(c.Cred.Body) > oncrpc.MaxAuthBody || len(c.Verf.Body) > oncrpc.MaxAuthBody || c.MaxReply < 0 {
		return ErrInvalidCall
	}
	return nil
}

// describe passes the call's sizes to the core.
func (p *pending) describe(c *RPC) {
	o := &p.out
	header := callHeaderSize + xdr.Padded(len(c.Cred.Body)) + xdr.Padded(len(c.Verf.Body))
	o.XID, o.Again, o.Own = c.xid, c.again, c.OwnXID
	if o.Own {
		o.XID = c.XID
	}
	o.StreamLen = header + len(c.Args)
	o.MaxReply = oncrpc.AcceptedReplySize + min(c.MaxReply, conn.MaxMessage) // beyond that it is too long
	o.Items, o.Results, o.Asked = o.Items[:0], o.Results[:0], o.Asked[:0]
	for i := range c.Items {
		o.Items = append(o.Items, chunk.Item{Pos: header + c.Items[i].Pos, Len: c.Items[i].Len})
	}
	for i := range c.Results {
		res := &c.Results[i]
		asked := res.Asked
		if !asked.Empty() {
			asked = asked.Shift(header)
		}
		o.Results, o.Asked = append(o.Results, res.Max), append(o.Asked, asked)
		res.Apart = 0
	}
}

// provide gets the memory for the message and for what the windows expose. It may wait. Calls
// that each have a part of their memory could wait for each other's, so only one call at a time
// waits while it holds some. The others have all of theirs, or none.
func (r *Requester) provide(ctx context.Context, p *pending, c *RPC) error {
	err := r.obtain(oncrpc.NoWait, p, c)
	if !errors.Is(err, context.Canceled) {
		return err
	}
	p.freeMemory()
	if err = ctx.Err(); err != nil {
		return err
	}
	select {
	case r.host.gathers <- struct{}{}:
		defer func() { <-r.host.gathers }()
		return r.obtain(ctx, p, c)
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
		return r.whyEnded()
	}
}

// obtain gets the memory of a call piece by piece. After an error it keeps what it has got.
func (r *Requester) obtain(ctx context.Context, p *pending, c *RPC) error {
	var err error
	if p.message, err = r.alloc(ctx, p, c, headRoom+p.out.BodyLength()); err != nil {
		return err
	}
	if n := p.out.Sends(); n > 1 {
		if p.header, err = r.alloc(ctx, p, c, (n-1)*transmission.ContinueSize); err != nil {
			return err
		}
	}
	for i := range p.out.Windows {
		w := &p.out.Windows[i]
		if w.Off > 0 { // same memory as the previous segment
			before := &p.memory[i-1]
			p.memory = append(p.memory, exposed{buf: before.buf, off: before.off + p.out.Windows[i-1].Length})
			continue
		}
		var m exposed
		n := p.out.ChunkLength(i)
		switch w.Use {
		case conn.ReadCall:
			m = exposed{buf: p.message, off: headRoom}
			p.header, err = r.alloc(ctx, p, c, headRoom)
		case conn.ReadItem:
			it := &c.Items[w.Index]
			if m, err = r.stage(ctx, p, c, it.Buf, n); err == nil && m.owned {
				p.pullup += copy(m.buf.Bytes(), it.Buf.Bytes()[:it.Len])
			}
		case conn.WriteResult:
			m, err = r.stage(ctx, p, c, c.Results[w.Index].Buf, n)
		case conn.WriteReply:
			m, err = r.stage(ctx, p, c, nil, n)
		}
		if err != nil {
			return err
		}
		p.memory = append(p.memory, m)
	}
	return nil
}

// stage returns registered memory of n bytes: b itself if it belongs to our pool and is
// large enough.
func (r *Requester) stage(ctx context.Context, p *pending, c *RPC, b oncrpc.Buffer, n int) (exposed, error) {
	if own, ok := b.(*regmem.Buffer); ok && own.Of(r.host.pool) && len(own.Bytes()) >= n {
		return exposed{buf: own}, nil
	}
	own, err := r.alloc(ctx, p, c, n)
	return exposed{buf: own, owned: err == nil}, err
}

// alloc returns memory of n bytes for a call. It waits until there is some, or ctx or the
// connection ends.
func (r *Requester) alloc(ctx context.Context, p *pending, c *RPC, n int) (*regmem.Buffer, error) {
	b, err := r.host.pool.Alloc(oncrpc.NoWait, n, regmem.Service)
	if !errors.Is(err, context.Canceled) {
		return b, err
	}
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	own, held := p.holds(c)
	b, err = r.host.pool.AllocBeside(both, n, regmem.Service, own, held)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = r.whyEnded()
	}
	return b, err
}

// holds returns how much of the pool's memory a call has in its slabs, in bytes: of its own, and with its caller's.
func (p *pending) holds(c *RPC) (own, n int64) {
	pool := p.r.host.pool
	var counted []*regmem.Buffer // several items may be in one
	count := func(b oncrpc.Buffer) {
		if own, ok := b.(*regmem.Buffer); ok && own != nil && own.Of(pool) && own.Pooled() && !slices.Contains(counted, own) {
			counted = append(counted, own)
			n += int64(len(own.Bytes()))
		}
	}
	count(p.message)
	count(p.header)
	for _, m := range p.memory {
		if m.owned {
			count(m.buf)
		}
	}
	own = n
	for i := range c.Items {
		count(c.Items[i].Buf)
	}
	for i := range c.Results {
		count(c.Results[i].Buf)
	}
	return own, n
}

// begin sends the call, now or once there is a credit.
func (r *Requester) begin(p *pending) error {
	goes := p.toDo != nil // if so, a worker may have p as soon as the call is over
	r.mu.Lock()
	defer r.releaseAndGather(goes)
	p.leads = false
	if r.dead {
		return r.endedLocked()
	}
	r.do(r.core.Prepare(&p.out, r.acts))
	now, err := r.core.Begin(&p.out)
	if err != nil {
		return err
	}
	r.awaited++
	if now {
		r.launch(p)
		r.carryOut()
	}
	r.takeLead(p, goes)
	return nil
}

// giveUp cancels the call. It completes soon, unless it has completed already.
func (r *Requester) giveUp(p *pending) {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if r.dead {
		return // completes with the connection's end
	}
	r.do(r.core.Cancel(&p.out, r.acts))
}

// results decodes the reply.
func (r *Requester) results(p *pending, c *RPC) error {
	err := p.results(c)
	if errors.Is(err, conn.ErrBadReply) {
		r.mu.Lock()
		r.stats.BadReplies++
		r.mu.Unlock()
	}
	return err
}

func (p *pending) results(c *RPC) error {
	msg, long := p.reply, -1
	for i := range p.out.Windows {
		w, m := &p.out.Windows[i], &p.memory[i]
		if w.Off > 0 {
			continue
		}
		switch w.Use {
		case conn.WriteReply:
			if p.out.Long > 0 {
				msg, long = m.buf.Bytes()[:p.out.Long], i
			}
		case conn.WriteResult:
			if p.out.InSends(w.Index) { // already copied to its place
				continue
			}
			n := p.out.Written[w.Index]
			if m.owned {
				n = copy(c.Results[w.Index].Buf.Bytes(), m.buf.Bytes()[:n])
				p.fixup += n
			}
			c.Results[w.Index].Apart = n
		}
	}
	if p.out.Read != nil {
		msg = p.readMessage(c)
	}
	var h oncrpc.ReplyHeader
	n, err := oncrpc.DecodeReply(msg, &h)
	if errors.Is(err, oncrpc.ErrMalformed) {
		return fmt.Errorf("%w: %w", conn.ErrBadReply, err)
	}
	if h.XID != p.out.XID {
		return fmt.Errorf("%w: XID of the RPC message", conn.ErrBadReply)
	}
	if c.Whole {
		return p.whole(c, msg, n, long)
	}
	if err != nil {
		return err
	}
	c.Reply = append(c.Reply[:0], msg[n:]...)
	return c.unpad(p.out.Padding, n, 0)
}

// whole returns a reply undecoded. Its header is n bytes. It is in window long, unless that
// is -1.
func (p *pending) whole(c *RPC, msg []byte, n, long int) error {
	if long >= 0 && p.memory[long].owned {
		p.memory[long].owned = false
		c.Reply, c.Long, c.LongLen = c.Reply[:0], p.memory[long].buf, len(msg)
		return nil
	}
	c.Reply, c.Long, c.LongLen = append(c.Reply[:0], msg...), nil, 0
	return c.unpad(p.out.Padding, 0, n)
}
