package rpctcp

import (
	"net"
	"sync"
	"time"
)

// Outgoing is a record to be sent by a Sender.
type Outgoing interface {
	// AppendTo appends the record, mark included, piece by piece.
	AppendTo(net.Buffers) net.Buffers
	// Sent is called once, when the record was written, or was not because of
	// err. The pieces are not read any more.
	Sent(err error)
}

// batchBytes is about how much is written at a time; a batch holds whole records.
const batchBytes = 1 << 20

// Sender writes records from many goroutines to one connection, in the order
// in which they were given to it. Whoever finds nobody writing writes for all
// until nothing is left, so that records given meanwhile go out together. Its
// queue is as long as the calls in flight, which its users bound.
type Sender struct {
	nc     net.Conn
	failed func(error) // called once, with the error
	pace   pace        // of the peer while something is being written

	mu      sync.Mutex
	queue   []Outgoing
	writing bool
	err     error

	// Only for the goroutine that writes.
	batch []Outgoing
	vec   net.Buffers
	left  net.Buffers // of vec; writing consumes it
}

// NewSender writes to nc. The peer may be behind Floor by patience. failed is
// called once, with the error. The caller closes nc.
func NewSender(nc net.Conn, patience time.Duration, failed func(error)) *Sender {
	return &Sender{nc: nc, failed: failed, pace: pace{patience: patience}}
}

// Watch makes the Sender expect that the peer reads the bytes that wait for it
// within its patience; held returns their number. slow is called while the peer is
// fair.Grace behind or more. Call Watch before anything is sent.
func (s *Sender) Watch(held func() int, slow func()) { s.pace.held, s.pace.slow = held, slow }

// Behind is how far the peer is behind with reading.
func (s *Sender) Behind() time.Duration { return s.pace.behind() }

// Send takes the record over; it may be called from any goroutine. It may
// write other goroutines' records before it returns.
func (s *Sender) Send(o Outgoing) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		o.Sent(s.err)
		return
	}
	s.queue = append(s.queue, o)
	if s.writing {
		s.mu.Unlock()
		return
	}
	s.writing = true
	s.mu.Unlock()
	for s.takeBatch() {
		s.writeBatch()
	}
}

// takeBatch moves the queue to the batch. It is false when there is nothing
// to write.
func (s *Sender) takeBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch, s.queue = s.queue, s.batch[:0]
	if s.writing = len(s.batch) > 0; !s.writing {
		s.pace.end()
	}
	return s.writing
}

// writeBatch writes the batch in steps of batchBytes.
func (s *Sender) writeBatch() {
	for start := 0; start < len(s.batch); {
		s.vec = s.vec[:0]
		end, size := start, 0
		for end < len(s.batch) && size < batchBytes {
			at := len(s.vec)
			s.vec = s.batch[end].AppendTo(s.vec)
			for _, piece := range s.vec[at:] {
				size += len(piece)
			}
			end++
		}
		err := s.write()
		for i := start; i < end; i++ {
			s.batch[i].Sent(err)
			s.batch[i] = nil
		}
		start = end
	}
}

// write writes s.vec, unless writing has failed before: what reached the peer
// then is unknown, so nothing may follow.
func (s *Sender) write() error {
	if s.err != nil { // only who writes sets it
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
	s.left = s.vec
	next, err := s.pace.goOn()
	for {
		if err == nil {
			err = s.nc.SetWriteDeadline(next)
		}
		if err != nil {
			return err
		}
		var n int64
		n, err = s.left.WriteTo(s.nc)
		s.pace.moved += int(n)
		if err == nil || !isDeadline(err) {
			return err
		}
		next, err = s.pace.look()
	}
}

// fail lets all that is sent from now on fail with err.
func (s *Sender) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.failed(err)
}
