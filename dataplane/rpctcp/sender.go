package rpctcp

import (
	"net"
	"sync"
	"time"
)

// outgoing is a record to be sent.
type outgoing interface {
	// appendTo appends the record, mark included, piece by piece.
	appendTo(net.Buffers) net.Buffers
	// sent is called once, when the record was written, or was not because of
	// err. The pieces are not read any more.
	sent(err error)
}

// batchBytes is how much is written under one deadline, a record more or less.
const batchBytes = 1 << 20

// sender writes records from many goroutines to one connection, in the order
// in which they were given to it. Whoever finds nobody writing writes for all
// until nothing is left, so that records given meanwhile go out together. Its
// queue is as long as the calls in flight, which its users bound.
type sender struct {
	nc      net.Conn
	timeout time.Duration // for batchBytes to be taken by the peer
	failed  func(error)   // called once, with what went wrong

	mu      sync.Mutex
	queue   []outgoing
	writing bool
	err     error

	// Only for the goroutine that writes.
	batch []outgoing
	vec   net.Buffers
	left  net.Buffers // of vec; writing consumes it
}

// send takes the record over. It may write other goroutines' records before it
// returns.
func (s *sender) send(o outgoing) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		o.sent(s.err)
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
func (s *sender) takeBatch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch, s.queue = s.queue, s.batch[:0]
	s.writing = len(s.batch) > 0
	return s.writing
}

// writeBatch writes the batch in steps of batchBytes, each under a deadline of
// its own.
func (s *sender) writeBatch() {
	for start := 0; start < len(s.batch); {
		s.vec = s.vec[:0]
		end, size := start, 0
		for end < len(s.batch) && size < batchBytes {
			at := len(s.vec)
			s.vec = s.batch[end].appendTo(s.vec)
			for _, piece := range s.vec[at:] {
				size += len(piece)
			}
			end++
		}
		err := s.write()
		for i := start; i < end; i++ {
			s.batch[i].sent(err)
			s.batch[i] = nil
		}
		start = end
	}
}

// write writes s.vec, unless writing has failed before: what reached the peer
// then is unknown, so nothing may follow.
func (s *sender) write() error {
	if s.err != nil { // only who writes sets it
		return s.err
	}
	err := s.nc.SetWriteDeadline(time.Now().Add(s.timeout))
	if err == nil {
		s.left = s.vec
		_, err = s.left.WriteTo(s.nc)
	}
	clear(s.vec)
	if err != nil {
		s.fail(err)
	}
	return err
}

// fail lets all that is sent from now on fail with err.
func (s *sender) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.failed(err)
}
