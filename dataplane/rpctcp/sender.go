package rpctcp

import (
	"net"
	"sync"
	"time"
)

// Outgoing is a record to be sent by a Sender.
type Outgoing interface {
	// AppendTo appends the record, with its mark, as pieces.
	AppendTo(net.Buffers) net.Buffers
	// Sent is called once, when the record was written, or could not be written because of
	// err. The pieces are no longer used.
	Sent(err error)
}

// Arriving is a record whose bytes are not all there when it is given to a Sender. Only the
// goroutine that sends it, or one of its own, waits for them.
type Arriving interface {
	Outgoing
	// Arrived waits until more than sent bytes of the record are there, and returns how
	// many. The Sender writes nothing else meanwhile.
	Arrived(sent int) (int, error)
	// Whole reports whether the record is all there.
	Whole() bool
}

// batchBytes is about how much is written at a time. A batch holds whole records.
const batchBytes = 1 << 20

// Sender writes records from many goroutines to one connection, in the order in which it
// gets them. A goroutine that finds no other one writing writes for all until nothing is
// left, so that records added meanwhile go out together. Its queue is as long as the calls
// in flight, which its users limit.
type Sender struct {
	nc     net.Conn
	failed func(error) // called once, with the error
	pace   pace        // of the peer while something is being written

	mu      sync.Mutex
	queue   []Outgoing
	writing bool
	err     error

	// Only for the goroutine that writes.
	own   Outgoing // its own record, until that is written
	batch []Outgoing
	done  int // records of batch that are written
	vec   net.Buffers
	whole net.Buffers // a record that arrives
	to    bulkWriter
}

// NewSender writes to nc. The peer may be at most patience behind Floor. failed is called
// once, with the error. The caller closes nc.
func NewSender(nc net.Conn, patience time.Duration, failed func(error)) *Sender {
	return &Sender{nc: nc, failed: failed, pace: pace{patience: patience}}
}

// Watch sets how much the peer must read within its patience: held returns the number of
// bytes that wait for it. slow is called while the peer is fair.Grace behind or more. Call
// Watch before anything is sent.
func (s *Sender) Watch(held func() int, slow func()) { s.pace.held, s.pace.slow = held, slow }

// Behind returns how far the peer is behind with reading.
func (s *Sender) Behind() time.Duration { return s.pace.behind() }

// Send queues the record. It may be called from any goroutine, and may write other
// goroutines' records before it returns.
func (s *Sender) Send(o Outgoing) {
	mine, err := s.add(o, true)
	if err != nil {
		o.Sent(err)
		o = nil
	}
	if mine {
		s.writeAll(o)
	}
}

// Queue queues the record, to be written with the next one. Send or Flush must follow soon.
func (s *Sender) Queue(o Outgoing) {
	if _, err := s.add(o, false); err != nil {
		o.Sent(err)
	}
}

// Flush writes the records that are queued, unless another goroutine does so.
func (s *Sender) Flush() {
	s.mu.Lock()
	mine := s.beginLocked()
	s.mu.Unlock()
	if mine {
		s.writeAll(nil)
	}
}

// add queues the record, unless an earlier one failed. With write, mine tells the caller to
// write what is queued. The record is among that: no other goroutine can have sent it before.
func (s *Sender) add(o Outgoing, write bool) (mine bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.queue = append(s.queue, o)
	}
	return write && s.beginLocked(), s.err
}

// beginLocked makes the caller the goroutine that writes, if there is something to write and
// no other one does so.
func (s *Sender) beginLocked() bool {
	if s.writing || len(s.queue) == 0 {
		return false
	}
	s.writing = true
	return true
}

// writeAll writes until nothing is left. Of records that arrive it writes only own. If there
// is another one, a new goroutine continues, because the arrival may depend on this one.
func (s *Sender) writeAll(own Outgoing) {
	s.own = own
	for s.done < len(s.batch) || s.takeBatch() {
		if next := s.batch[s.done]; next == s.own || whole(next) {
			s.writeNext()
		} else {
			go s.writeAll(next)
			return
		}
	}
}

// whole reports whether a record is all there.
func whole(o Outgoing) bool {
	a, ok := o.(Arriving)
	return !ok || a.Whole()
}

// takeBatch moves the queue to the batch. It returns false if there is nothing to write.
func (s *Sender) takeBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch, s.queue, s.done = s.queue, s.batch[:0], 0
	if s.writing = len(s.batch) > 0; !s.writing {
		s.pace.end()
	}
	return s.writing
}

// writeNext writes the next record, and others with it: about batchBytes.
func (s *Sender) writeNext() {
	s.vec = s.vec[:0]
	if next := s.batch[s.done]; !whole(next) {
		s.sent(s.done+1, s.writeArriving(next.(Arriving)))
		return
	}
	end, size := s.done, 0
	for end < len(s.batch) && size < batchBytes && whole(s.batch[end]) {
		at := len(s.vec)
		s.vec = s.batch[end].AppendTo(s.vec)
		for _, piece := range s.vec[at:] {
			size += len(piece)
		}
		end++
	}
	s.sent(end, s.write())
}

// sent ends the records of the batch up to one.
func (s *Sender) sent(end int, err error) {
	for ; s.done < end; s.done++ {
		if s.batch[s.done] == s.own { // its user may use it again, as another record
			s.own = nil
		}
		s.batch[s.done].Sent(err)
		s.batch[s.done] = nil
	}
}

// writeArriving writes a record as its bytes arrive.
func (s *Sender) writeArriving(a Arriving) error {
	if s.err != nil {
		return s.err
	}
	s.whole = a.AppendTo(s.whole[:0])
	defer clear(s.whole)
	left, sent := s.whole, 0
	for len(left) > 0 {
		n, err := a.Arrived(sent)
		if err != nil {
			s.fail(err)
			return err
		}
		s.vec = s.vec[:0]
		for sent < n {
			k := min(len(left[0]), n-sent)
			s.vec = append(s.vec, left[0][:k])
			sent += k
			if left[0] = left[0][k:]; len(left[0]) == 0 {
				left = left[1:]
			}
		}
		if err := s.write(); err != nil {
			return err
		}
		s.pace.end() // the peer does not cause the wait
	}
	return nil
}

// write writes s.vec, unless an earlier write failed: it is unknown what then reached the
// peer, so nothing may follow.
func (s *Sender) write() error {
	if s.err != nil { // only the writing goroutine sets it
		return s.err
	}
	err := s.writeOut()
	clear(s.vec)
	if err != nil {
		s.fail(err)
	}
	return err
}

// writeOut writes s.vec while the peer makes progress.
func (s *Sender) writeOut() error {
	s.to.left = s.vec // writing consumes it
	next, err := s.pace.goOn()
	for {
		if err == nil {
			err = s.nc.SetWriteDeadline(next)
		}
		if err != nil {
			return err
		}
		var n int64
		n, err = s.to.write(s.nc)
		s.pace.moved += int(n)
		if err == nil || !isDeadline(err) {
			return err
		}
		next, err = s.pace.look()
	}
}

// fail makes all later records fail with err.
func (s *Sender) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.failed(err)
}
