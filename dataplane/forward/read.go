package forward

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// growStep is how far a reply's stream grows beyond what has arrived, in bytes.
const growStep = 64 << 10

// memoryWait is how long the reader waits for registered memory, and with it
// everything behind the reply. Those who hold what it waits for may themselves
// wait for a reply behind it.
const memoryWait = time.Second

// unpooledWait is how long the reader then waits for memory of its own. Replies with
// several results may wait for each other's: then the session ends.
const unpooledWait = 10 * time.Second

// errNoMessage is why the stream is given up: what follows can't be trusted.
var errNoMessage = errors.New("a record that is no RPC message")

// errNoMemory is why the stream is given up with a result that there is no memory for.
var errNoMemory = errors.New("no memory for a result: clients read their replies too slowly, or limits.memory is too low")

// now is a context in which nothing is waited for.
var now = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// read takes what the upstream sends until it ends or is out of step.
func (s *Session) read() {
	defer close(s.done)
	for {
		if err := s.readRecord(); err != nil {
			s.fail(err)
			return
		}
	}
}

// readRecord reads one record: a reply into the memory of the call that waits
// for it, or a call of the upstream's. An error is one of the stream.
func (s *Session) readRecord() error {
	size, err := s.records.Next()
	if err != nil {
		return err
	}
	left := -1
	if s.records.Whole() {
		left = size - len(s.head)
	}
	if err := s.records.ReadParts(s.head[:]); err != nil {
		return noMessage(err)
	}
	xid, mtype, ok := oncrpc.MessageType(s.head[:])
	switch {
	case !ok:
		return errNoMessage
	case mtype == oncrpc.MsgCall:
		return s.readCall(xid)
	}
	c := s.expect(xid)
	if c == nil {
		s.f.stats.strays.Add(1)
		return s.skip()
	}
	err = s.readReply(c, left)
	s.answered(c, err)
	return err
}

// noMessage is the error of a record that ends too soon.
func noMessage(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoMessage
	}
	return err
}

// skip reads the rest of the record and forgets it.
func (s *Session) skip() error {
	if s.scratch == nil {
		s.scratch = make([]byte, 4<<10)
	}
	for {
		_, err := s.records.ReadPart(s.scratch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readReply reads the rest of a reply, left bytes or an unknown number. What
// is wrong with it alone is c.refusal, and the record is read to its end.
func (s *Session) readReply(c *call, left int) error {
	r := c.reply
	r.Stream = append(r.Stream[:0], s.head[:]...)
	err := s.readResults(c, left)
	if errors.Is(err, io.EOF) { // of the record
		c.refusal = errSystem
		return nil
	}
	if err == nil {
		s.f.stats.replies.Add(1)
		return nil
	}
	if _, ok := errors.AsType[*oncrpc.AcceptError](err); ok {
		c.refusal = err
		return s.skip()
	}
	return err
}

// readResults reads the header of a reply, RFC 5531 §9, and what follows.
func (s *Session) readResults(c *call, left int) error {
	r := c.reply
	accepted, err := s.word(r)
	if err != nil {
		return err
	}
	if accepted != 0 {
		return s.rest(r)
	}
	if _, err := s.word(r); err != nil { // flavor
		return err
	}
	n, err := s.word(r)
	if err != nil {
		return err
	}
	if n > oncrpc.MaxAuthBody {
		return errSystem
	}
	if err := s.append(r, xdr.Padded(int(n))); err != nil {
		return err
	}
	success, err := s.word(r)
	if err != nil {
		return err
	}
	if success != 0 || !c.reduces {
		return s.rest(r)
	}
	if left >= 0 {
		left -= len(r.Stream) - len(s.head)
	}
	return s.walk(c, left)
}

// walk reads the results of a successful reply and takes what is DDP-eligible
// apart.
func (s *Session) walk(c *call, left int) error {
	c.plan.StartReply(left)
	for {
		b, err := s.atHand()
		if err != nil {
			return err
		}
		if len(b) == 0 {
			return bad(c.plan.Finish())
		}
		n, step, err := c.plan.Walk(b)
		if err := s.append(c.reply, n); err != nil {
			return err
		}
		switch {
		case errors.Is(err, ulb.ErrUnknown), err == nil && step == ulb.End:
			return s.rest(c.reply)
		case err != nil:
			return errSystem
		case step == ulb.OverLimit:
			c.plan.Lower(c.reply.Stream)
		case step == ulb.AtItem:
			if err := s.item(c); err != nil {
				return err
			}
		}
	}
}

// bad has a reply refused that is not what its binding says.
func bad(err error) error {
	if err == nil || errors.Is(err, ulb.ErrUnknown) {
		return nil
	}
	return errSystem
}

// item reads the result that the walk is at. Result i goes with write chunk i:
// those before it that the reply does not have are absent.
func (s *Session) item(c *call) error {
	i, r := c.plan.Current(), c.reply
	n, all, asked := c.plan.Results[i].Len, c.plan.Pending(), c.plan.Results[i].Asked
	for len(r.Items) < i {
		r.AppendAbsent()
	}
	if n == 0 {
		r.AppendResult(plain(nil), 0, asked)
		return nil
	}
	buf, err := s.alloc(c, n)
	if err != nil {
		return err
	}
	r.AppendResult(buf, n, asked)
	if err := s.records.ReadParts(buf.Bytes()[:n]); err != nil {
		return err
	}
	if err := s.records.ReadParts(s.pad[:all-n]); err != nil {
		return err
	}
	c.plan.Took(all)
	s.f.stats.placed.Add(1)
	s.f.stats.placedBytes.Add(uint64(n))
	return nil
}

// alloc gives memory for n bytes of a result. When there is none of the
// transport's in time, it is memory that the transport has to register.
func (s *Session) alloc(c *call, n int) (oncrpc.Buffer, error) {
	if b, err := c.reply.Mem.Alloc(now, n); err == nil {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, memoryWait)
	defer cancel()
	if b, err := c.reply.Mem.Alloc(ctx, n); err == nil {
		return b, nil
	}
	return s.unpooled(c, n)
}

// unpooled gives memory that is not the transport's.
func (s *Session) unpooled(c *call, n int) (oncrpc.Buffer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, unpooledWait)
	defer cancel()
	if s.f.cfg.Unpooled.Acquire(ctx, int64(n)) != nil {
		return nil, errNoMemory
	}
	s.f.stats.unpooled.Add(1)
	return &lent{make(plain, n), s.f.cfg.Unpooled}, nil
}

// lent is plain memory that counts until it is released.
type lent struct {
	plain
	budget *budget.Budget
}

// Release implements oncrpc.Buffer.
func (l *lent) Release() { l.budget.Release(int64(len(l.plain))) }

// plain is memory that is not the transport's.
type plain []byte

// Bytes implements oncrpc.Buffer.
func (p plain) Bytes() []byte { return p }

// Release implements oncrpc.Buffer.
func (plain) Release() {}

// atHand gives bytes of the record that are there already, after waiting for
// some; none at the record's end.
func (s *Session) atHand() ([]byte, error) {
	left, err := s.records.Fragment()
	if err != nil || left == 0 {
		return nil, err
	}
	if s.in.Buffered() == 0 {
		if _, err := s.in.Peek(1); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return s.in.Peek(min(left, s.in.Buffered()))
}

// rest appends all that is left of the record.
func (s *Session) rest(r *oncrpc.Reply) error {
	for {
		left, err := s.records.Fragment()
		if err != nil || left == 0 {
			return err
		}
		if err := s.append(r, min(left, growStep)); err != nil {
			return err
		}
	}
}

// append reads n bytes of the record into the stream.
func (s *Session) append(r *oncrpc.Reply, n int) error {
	at := len(r.Stream)
	r.Stream = slices.Grow(r.Stream, n)[:at+n]
	return s.records.ReadParts(r.Stream[at:])
}

// word reads an XDR word into the stream.
func (s *Session) word(r *oncrpc.Reply) (uint32, error) {
	if err := s.append(r, xdr.Unit); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(r.Stream[len(r.Stream)-xdr.Unit:])
	return d.Uint32(), d.Err()
}
