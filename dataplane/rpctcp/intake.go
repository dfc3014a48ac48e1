package rpctcp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// ErrStopped ends the reading of a connection that takes no more calls.
var ErrStopped = errors.New("rpctcp: no more calls are taken")

// readBuffer is how much is read ahead, in bytes. What is longer goes straight
// to where it is wanted.
const readBuffer = 16 << 10

// Intake reads from a peer, ahead of what is asked for: without a limit of time
// between records, at no less than Floor within one. One goroutine reads; Stop
// and Behind are anybody's.
type Intake struct {
	*bufio.Reader
	from source
}

// source is what the Intake reads ahead from.
type source struct {
	nc      net.Conn
	count   *atomic.Uint64 // bytes read
	stopped atomic.Bool
	timed   bool // within a record: reads have a deadline
	pace    pace
}

// NewIntake reads from nc. Within a record the peer may be behind Floor by
// patience; slow, if there is one, is called meanwhile. count counts bytes.
func NewIntake(nc net.Conn, patience time.Duration, count *atomic.Uint64, slow func()) *Intake {
	i := &Intake{from: source{nc: nc, count: count, pace: pace{patience: patience, slow: slow}}}
	i.Reader = bufio.NewReaderSize(&i.from, readBuffer)
	return i
}

// Read implements io.Reader. A peer that makes progress has further time.
func (s *source) Read(b []byte) (int, error) {
	for {
		n, err := s.nc.Read(b)
		s.count.Add(uint64(n))
		s.pace.moved += n
		if n > 0 || !s.timed || !isDeadline(err) {
			return n, err
		}
		next, err := s.pace.look()
		if err == nil {
			err = s.until(next)
		}
		if err != nil {
			return 0, err
		}
	}
}

// until sets the deadline of the reads to come, unless Stop has set one for
// good.
func (s *source) until(t time.Time) error {
	if err := s.nc.SetReadDeadline(t); err != nil {
		return err
	}
	if s.stopped.Load() {
		_ = s.nc.SetReadDeadline(longAgo)
		return ErrStopped
	}
	return nil
}

// longAgo is a deadline that is over.
var longAgo = time.Unix(1, 0)

// Stop has the reading end, now if it waits, so that the connection ends as
// soon as its calls are answered.
func (i *Intake) Stop() {
	i.from.stopped.Store(true)
	_ = i.from.nc.SetReadDeadline(longAgo) // fails when the connection has ended already
}

// Stopped says whether no further calls are to be read.
func (i *Intake) Stopped() bool { return i.from.stopped.Load() }

// Behind is how far the peer is behind Floor with the record that it sends.
func (i *Intake) Behind() time.Duration { return i.from.pace.behind() }

// Await waits for the first byte of a record.
func (i *Intake) Await() error {
	i.from.pace.end()
	for i.Buffered() == 0 && !i.Stopped() {
		if i.from.timed {
			i.from.timed = false
			if err := i.from.until(time.Time{}); err != nil {
				return err
			}
		}
		if _, err := i.Peek(1); err != nil && !i.Stopped() {
			return err
		}
	}
	if i.Stopped() {
		return ErrStopped
	}
	return nil
}

// Expect times the peer from now on, unless n bytes have arrived already.
func (i *Intake) Expect(n int) error {
	if i.Buffered() >= n {
		return nil
	}
	return i.Again()
}

// Again times the peer from now on, when what came before was not its doing.
func (i *Intake) Again() error {
	i.from.timed = true
	return i.from.until(i.from.pace.begin())
}

// Arrive waits for the next n bytes, or as many as are read ahead.
func (i *Intake) Arrive(n int) error {
	n = min(n, readBuffer)
	if err := i.Expect(n); err != nil {
		return err
	}
	if _, err := i.Peek(n); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	return nil
}
