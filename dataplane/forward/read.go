package forward

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Forwarder.least and enough, in bytes.
const (
	leastPart  = 64 << 10
	enoughPart = 256 << 10
)

// pause is how long the upstream must send nothing before a part that is smaller than
// Forwarder.enough goes to the client. If both links are fast, passing on each read would cost
// more than it saves.
const pause = 400 * time.Microsecond

// growStep is how much of a reply's stream must come, in bytes, before it gets memory for all.
const growStep = 64 << 10

// memoryWait is how long the reader, and all replies behind the current one, wait for
// registered memory. The holders of that memory may themselves wait for a later reply.
const memoryWait = time.Second

// unpooledWait is how long the reader waits for memory of its own. Replies with
// several results may wait for each other's: then the session ends.
const unpooledWait = 10 * time.Second

// errNoMessage ends the stream, because what follows cannot be trusted.
var errNoMessage = errors.New("a record that is not an RPC message")

// errNoMemory ends the stream: there is no memory for the reply that arrives.
var errNoMemory = errors.New("no memory for a reply: clients read their replies too slowly, or limits.memory is too low")

// read reads what the upstream sends, until the stream ends or is invalid.
func (s *Session) read() {
	defer close(s.done)
	for {
		if err := s.readRecord(); err != nil {
			s.fail(err)
			return
		}
	}
}

// readRecord reads one record: a reply into the memory of the call that waits for it, or a
// call of the upstream. An error is permanent.
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
	if err = s.readReply(c, left); err != nil {
		s.fail(err) // while the call counts as unanswered
	}
	s.ended(c, err)
	return err
}

// noMessage returns the error of a record that ends too soon.
func noMessage(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoMessage
	}
	return err
}

// skip reads and drops the rest of the record.
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

// readReply reads the rest of a reply, left bytes or an unknown number. A fault of this
// reply alone goes into c.refusal, and the record is still read to its end.
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
	accepted, err := s.word(c)
	if err != nil {
		return err
	}
	if accepted != 0 {
		return s.rest(c)
	}
	if _, err := s.word(c); err != nil { // flavor
		return err
	}
	n, err := s.word(c)
	if err != nil {
		return err
	}
	if n > oncrpc.MaxAuthBody {
		return errSystem
	}
	if err := s.append(c, xdr.Padded(int(n))); err != nil {
		return err
	}
	success, err := s.word(c)
	if err != nil {
		return err
	}
	if success != 0 || !c.reduces {
		return s.rest(c)
	}
	if left >= 0 {
		left -= len(r.Stream) - len(s.head)
	}
	return s.walk(c, left)
}

// walk reads the results of a successful reply and separates the DDP-eligible ones.
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
		if err := s.append(c, n); err != nil {
			return err
		}
		switch {
		case errors.Is(err, ulb.ErrUnknown), err == nil && step == ulb.End:
			return s.rest(c)
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

// bad returns the error for a reply that does not match its binding.
func bad(err error) error {
	if err == nil || errors.Is(err, ulb.ErrUnknown) {
		return nil
	}
	return errSystem
}

// item reads the result at which the walk is. Result i belongs to write chunk i, so earlier
// results that the reply does not have are marked absent.
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
	if err := s.fill(r, buf.Bytes()[:n]); err != nil {
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

// ahead is the part of a reply's last item that has arrived.
type ahead struct {
	reply      *oncrpc.Reply // nil without an item of which the client could have more
	at, passed int           // bytes that have come, and that the client has
}

// fill reads the last item of a reply. It passes the parts of a long item on as they arrive.
func (s *Session) fill(r *oncrpc.Reply, b []byte) error {
	a := &s.ahead
	for *a = (ahead{}); a.at < len(b); {
		n, err := s.records.ReadPart(b[a.at:])
		a.reply = nil
		if err != nil {
			return err
		}
		a.at += n
		switch part := a.at - a.passed; {
		case part < s.f.least || a.at == len(b):
		case part < s.f.enough:
			a.reply = r // the part goes on if the upstream pauses
		default:
			s.passOn(r)
		}
	}
	return nil
}

// passOn gives the client all bytes of the last item that have arrived.
func (s *Session) passOn(r *oncrpc.Reply) {
	r.Filled(s.ahead.at)
	s.ahead.passed, s.ahead.reply = s.ahead.at, nil
}

// source is a session in its role as the reader of its upstream's connection.
type source Session

// Read implements io.Reader.
func (s *source) Read(b []byte) (int, error) {
	if s.ahead.reply == nil {
		return s.nc.Read(b)
	}
	if err := s.nc.SetReadDeadline(time.Now().Add(pause)); err != nil {
		return 0, err
	}
	n, err := s.nc.Read(b)
	if late := n == 0 && errors.Is(err, os.ErrDeadlineExceeded); late {
		(*Session)(s).passOn(s.ahead.reply)
	} else if err != nil {
		return n, err
	}
	if err := s.nc.SetReadDeadline(time.Time{}); err != nil || n > 0 {
		return n, err
	}
	return s.nc.Read(b)
}

// alloc returns memory for n bytes of a result. If the transport has none in time, it
// returns memory that the transport must register.
func (s *Session) alloc(c *call, n int) (oncrpc.Buffer, error) {
	if b, err := c.reply.Mem.Alloc(oncrpc.NoWait, n); err == nil {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, memoryWait)
	defer cancel()
	if b, err := c.reply.Mem.Alloc(ctx, n); err == nil {
		return b, nil
	}
	b, err := s.lend(c, n)
	if err != nil {
		return nil, err
	}
	s.f.stats.unpooled.Add(1)
	return b, nil
}

// lend gives memory that is not the transport's. A client that goes meanwhile is no lack of
// memory.
func (s *Session) lend(c *call, n int) (*lent, error) {
	ctx, cancel := context.WithTimeout(c.ctx, unpooledWait)
	defer cancel()
	switch err := s.f.cfg.Unpooled.Acquire(ctx, int64(n)); {
	case err != nil && c.ctx.Err() != nil:
		return nil, errClosed
	case err != nil:
		return nil, errNoMemory
	}
	return &lent{make(plain, n), s.f.cfg.Unpooled}, nil
}

// lent is plain memory that counts in a budget until it is released.
type lent struct {
	plain
	budget *budget.Budget
}

// Release implements oncrpc.Buffer.
func (l *lent) Release() { l.budget.Release(int64(len(l.plain))) }

// plain is memory that does not belong to the transport.
type plain []byte

// Bytes implements oncrpc.Buffer.
func (p plain) Bytes() []byte { return p }

// Release implements oncrpc.Buffer.
func (plain) Release() {}

// atHand returns bytes of the record that are available, after waiting for some. It returns
// none at the record's end.
func (s *Session) atHand() ([]byte, error) {
	left, err := s.records.Fragment()
	if err != nil || left == 0 {
		return nil, err
	}
	if s.in.Buffered() == 0 {
		if _, err := s.in.Peek(1); err != nil {
			return nil, oncrpc.Unexpected(err)
		}
	}
	return s.in.Peek(min(left, s.in.Buffered()))
}

// rest appends all that is left of the record.
func (s *Session) rest(c *call) error {
	for {
		left, err := s.records.Fragment()
		if err != nil || left == 0 {
			return err
		}
		if len(c.reply.Stream) < growStep {
			left = min(left, growStep)
		}
		if err := s.append(c, left); err != nil {
			return err
		}
	}
}

// append reads n bytes of the record into the stream. When growStep bytes have come, a stream that
// is too short gets memory for all that is left of the record, and so grows no more. Only a record of unknown
// length that is longer than MaxMessage, more than clients have room for, grows once more.
func (s *Session) append(c *call, n int) error {
	r := c.reply
	at := len(r.Stream)
	if need := at + n; need > cap(r.Stream) {
		switch {
		case at < growStep:
		case s.records.Whole():
			left, _ := s.records.Fragment() // without the results that came apart
			need = max(need, at+left)
		case need <= rpcrdma.MaxMessage: // its length is not known, but most are not longer
			need = min(rpcrdma.MaxMessage, int(s.f.cfg.MaxRecord))
		default:
			need = int(s.f.cfg.MaxRecord)
		}
		if err := s.grow(c, need); err != nil {
			return err
		}
	}
	r.Stream = r.Stream[:at+n]
	return s.records.ReadParts(r.Stream[at:])
}

// grow moves the stream to memory for at least n bytes. While it waits for that, the memory that
// the stream has does not count: otherwise replies could wait for each other's memory, or for their
// own. It is at most twice growStep, unless the stream grows once more.
func (s *Session) grow(c *call, n int) error {
	r := c.reply
	if r.Storage != nil {
		r.Storage.Release()
		r.Storage = nil
	}
	b, err := s.lend(c, max(n, min(2*cap(r.Stream), 2*growStep)))
	if err != nil {
		return err
	}
	r.Stream = append(b.plain[:0], r.Stream...)
	r.Storage = b
	return nil
}

// word reads an XDR word into the stream.
func (s *Session) word(c *call) (uint32, error) {
	if err := s.append(c, xdr.Unit); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(c.reply.Stream[len(c.reply.Stream)-xdr.Unit:])
	return d.Uint32(), d.Err()
}
