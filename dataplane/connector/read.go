package connector

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

const (
	// headSize is how many bytes of a record are read before its type is known: any RPC
	// header, and the arguments of most calls. The part of an item in these bytes is
	// copied. The rest of the item is read directly into its memory.
	headSize = 1024
	// step is how many bytes of a stream are read at once where an item may follow.
	step = 1024

	minBuffer = 1 << 10 // smallest buffer of registered memory, in bytes
	maxClass  = 1 << 20 // largest that is a power of two

	// maxApart bounds the items of a call that may stand apart, and also its results.
	// Further ones are in the stream.
	maxApart = 16
	// mostSmall is the most memory that the minimum size of buffers adds, in bytes.
	mostSmall = (maxApart + 4) * minBuffer
	// mostReply is the most that a reply may take of the budgets, in bytes, for its
	// results and its message.
	mostReply = 3*rpcrdma.MaxMessage + mostSmall
	// mostOfCall is the most that one call may take of the budgets, in bytes.
	mostOfCall = 3*MaxRecord + mostSmall + mostReply
)

// footprint returns the most registered memory that a buffer of n bytes uses.
func footprint(n int) int64 {
	switch {
	case n <= minBuffer:
		return minBuffer
	case n <= maxClass:
		return 1 << bits.Len(uint(n-1))
	}
	return rpcrdma.MaxMessage + minBuffer*4
}

// reading is a partly read record.
type reading struct {
	*oncrpc.RecordReader
	total int // bytes; -1 while unknown
	done  bool
}

// errTooLarge is the reason to refuse a call that is too long to be carried.
var errTooLarge = fmt.Errorf("%w of %d bytes", oncrpc.ErrRecordTooLarge, MaxRecord)

// fits returns an error when the record so far is too long to be carried.
func (r *reading) fits() error {
	if r.Size() > MaxRecord {
		return errTooLarge
	}
	return nil
}

// more appends up to n bytes of the record to b. It appends fewer at the record's end.
func (r *reading) more(b []byte, n int) ([]byte, error) {
	for n > 0 && !r.done {
		if cap(b)-len(b) < n {
			b = append(b, make([]byte, n)...)[:len(b)]
		}
		m, err := r.ReadPart(b[len(b) : len(b)+n])
		if r.done = errors.Is(err, io.EOF); r.done {
			break
		}
		if err != nil {
			return b, err
		}
		b, n = b[:len(b)+m], n-m
	}
	if !r.done {
		left, err := r.Fragment()
		if err != nil {
			return b, err
		}
		r.done = left == 0
	}
	return b, nil
}

// readHead reads the first bytes of a record.
func (s *session) readHead(cl *call) (*reading, error) {
	if err := s.intake.Expect(oncrpc.RecordMarkSize); err != nil {
		return nil, err
	}
	n, err := s.records.Next()
	if err != nil {
		return nil, err
	}
	r := &s.reading
	r.RecordReader, r.total, r.done = s.records, -1, false
	if s.records.Whole() {
		r.total = n
		err = s.intake.Expect(n)
	} else { // the rest has an unknown length, and an old deadline may have passed
		err = s.intake.Again()
	}
	if err != nil {
		return nil, err
	}
	cl.head, err = r.more(cl.head[:0], headSize)
	cl.stream = cl.head
	return r, err
}

// more appends up to n bytes of the record to the stream. A longer stream moves to other
// storage than the head, to which the call's header refers.
func (cl *call) more(r *reading, n int) (err error) {
	if size := len(cl.stream) + n; size > cap(cl.stream) && !r.done {
		if b := cl.s.c.spares.Take(nil); cap(b) >= size {
			cl.stream = append(b, cl.stream...)
		}
	}
	cl.stream, err = r.more(cl.stream, n)
	return err
}

// readCall reads one record: a call, which it hands on, or the reply to a callback.
func (s *session) readCall(cl *call) (handed bool, err error) {
	r, err := s.readHead(cl)
	if err != nil {
		return false, err
	}
	xid, mtype, ok := oncrpc.MessageType(cl.stream)
	switch {
	case !ok:
		return false, oncrpc.ErrMalformed
	case mtype == oncrpc.MsgReply:
		return false, s.readReply(xid, cl, r)
	}
	s.c.stats.calls.Add(1)
	cl.body, err = oncrpc.DecodeCall(cl.stream, &cl.hdr)
	cl.times.Is(&cl.hdr)
	denied, ok := errors.AsType[*oncrpc.DeniedError](err)
	if err != nil && !ok {
		return false, err
	}
	s.renew(&cl.hdr, time.Now())
	if err := s.gate.Acquire(s.ctx, 1); err != nil {
		return false, err
	}
	cl.gated = true
	s.seat.Began()
	if !r.done { // waiting for credits may have taken time
		if err := s.intake.Again(); err != nil {
			return false, err
		}
	}
	switch {
	case denied != nil:
		return s.deny(cl, r, denied)
	case !s.begin(cl):
		s.c.stats.duplicates.Add(1)
		return false, s.skip(cl, r)
	}
	if err := s.readArguments(cl, r); errors.Is(err, errTooLarge) {
		return s.refuse(cl, r)
	} else if err != nil {
		return false, err
	}
	if err := cl.provide(); err != nil {
		return false, err
	}
	cl.start()
	return true, nil
}

// skip reads and drops the rest of a record.
func (s *session) skip(cl *call, r *reading) (err error) {
	for !r.done && err == nil {
		cl.stream, err = r.more(cl.stream[:0], headSize)
	}
	return err
}

// deny answers a call that RPC does not allow.
func (s *session) deny(cl *call, r *reading, why error) (handed bool, err error) {
	if err := s.skip(cl, r); err != nil {
		return false, err
	}
	s.c.stats.failed.Add(1)
	cl.answer(why)
	s.out.Send(cl)
	return true, nil
}

// refuse answers a call that is too long. For a known program it uses the program's own error.
func (s *session) refuse(cl *call, r *reading) (handed bool, err error) {
	results := nfs.TooLarge(&cl.hdr, cl.stream[cl.body:])
	if err := s.skip(cl, r); err != nil {
		return false, err
	}
	s.c.stats.failed.Add(1)
	s.about(cl, errTooLarge).Warn("call refused")
	if results == nil {
		cl.answer(&oncrpc.AcceptError{Stat: oncrpc.GarbageArgs})
	} else {
		cl.answerWith(results)
	}
	s.forget(cl)
	s.out.Send(cl)
	return true, nil
}

// readArguments reads the arguments: DDP-eligible items into registered memory, the rest into
// the stream. Arguments that the binding does not understand are passed on unchanged, and the
// target checks them.
func (s *session) readArguments(cl *call, r *reading) error {
	if err := r.fits(); err != nil {
		return err
	}
	total := r.total
	if total >= 0 {
		total -= cl.body
	}
	cl.plan.StartCall(s.c.cfg.Bindings, &cl.hdr, total)
	if !r.done {
		size := r.total
		if size < 0 {
			size = MaxRecord
		}
		// The record mark takes no memory. The record gets memory when part of it has
		// arrived.
		left, err := r.Fragment()
		if err != nil {
			return err
		}
		if err := s.intake.Arrive(left); err != nil {
			return err
		}
		if err := cl.reserve(3*int64(size) + mostSmall + mostReply); err != nil {
			return err
		}
		// Waiting for memory may have taken time as well.
		if err := s.intake.Again(); err != nil {
			return err
		}
	}
	// done is the number of bytes of the stream that the walk has passed.
	for done := cl.body; ; {
		n, at, err := cl.plan.Walk(cl.stream[done:])
		done += n
		switch {
		case err != nil:
			cl.unsure = true
			return s.readRest(cl, r)
		case at == ulb.End:
			return s.readRest(cl, r)
		case at == ulb.OverLimit:
			cl.plan.Lower(cl.stream[:done])
		case at == ulb.AtItem:
			if err := s.readItem(cl, r, done); err != nil {
				return err
			}
		case r.done:
			return nil
		}
		if at == ulb.More {
			if err := cl.more(r, step); err != nil {
				return err
			}
			if err := r.fits(); err != nil {
				return err
			}
		}
	}
}

// readRest reads the rest of a record into the stream.
func (s *session) readRest(cl *call, r *reading) (err error) {
	for !r.done && err == nil {
		left, ferr := r.Fragment()
		if ferr != nil {
			return ferr
		}
		if err := r.fits(); err != nil {
			return err
		}
		err = cl.more(r, min(left, keepStream))
	}
	return err
}

// readItem reads the item that the walk has reached, at off of the stream.
func (s *session) readItem(cl *call, r *reading, off int) error {
	n := cl.plan.Items[cl.plan.Current()].Len
	have := len(cl.stream) - off
	if r.done && have < xdr.Padded(n) {
		return nil // cut short: the target checks that
	}
	if n > MaxRecord {
		return errTooLarge
	}
	if n == 0 || len(cl.rpc.Items) == maxApart {
		return nil // it stays in the stream
	}
	buf, err := s.itemMemory(r, n)
	if err != nil {
		return err
	}
	cl.rpc.Items = append(cl.rpc.Items, oncrpc.ReplyItem{Pos: off - cl.body, Buf: buf, Len: n})
	have = min(have, xdr.Padded(n))
	copied := copy(buf.Bytes()[:n], cl.stream[off:off+have])
	// The part of the item that is already in the stream moves to the item's memory.
	cl.stream = append(cl.stream[:off], cl.stream[off+have:]...)
	if copied < n {
		if err := r.ReadParts(buf.Bytes()[copied:n]); err != nil {
			return oncrpc.Unexpected(err)
		}
	}
	if rest := xdr.Padded(n) - max(have, n); rest > 0 {
		var pad [xdr.Unit]byte
		if err := r.ReadParts(pad[:rest]); err != nil {
			return oncrpc.Unexpected(err)
		}
	}
	cl.plan.Took(cl.plan.Pending())
	if !r.done {
		left, err := r.Fragment()
		if err != nil {
			return err
		}
		r.done = left == 0
	}
	return r.fits()
}

// itemMemory returns memory for an item of n bytes. If that takes a wait, the client did not
// cause it. Without a wait, the client stays as far behind as it was.
func (s *session) itemMemory(r *reading, n int) (oncrpc.Buffer, error) {
	if buf, err := s.rdma.Alloc(oncrpc.NoWait, n); err == nil {
		return buf, nil
	}
	buf, err := s.rdma.Alloc(s.ctx, n)
	if err == nil && !r.done {
		if err = s.intake.Again(); err != nil {
			buf.Release()
		}
	}
	return buf, err
}
