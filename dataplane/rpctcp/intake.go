package rpctcp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// ErrStopped means that the connection accepts no more calls.
var ErrStopped = errors.New("rpctcp: no more calls are accepted")

// readBuffer is the size of the read-ahead buffer, in bytes. Longer reads go directly into
// the caller's memory.
const readBuffer = 16 << 10

// Intake reads ahead from a peer. Between records the peer may take any time;
// within a record it must send at Floor or faster. One goroutine reads. Stop, Behind and
// Begun may be called from any goroutine.
type Intake struct {
	*bufio.Reader
	from  source
	begun atomic.Bool
}

// source is the peer's connection, as the read-ahead buffer reads it.
type source struct {
	nc      net.Conn
	count   *atomic.Uint64 // bytes read
	stopped atomic.Bool
	timed   bool // within a record: reads have a deadline
	pace    pace
}

// NewIntake reads from nc. Within a record the peer may be at most patience behind Floor.
// slow, if not nil, is called while the peer is fair.Grace behind or more. count counts
// bytes.
func NewIntake(nc net.Conn, patience time.Duration, count *atomic.Uint64, slow func()) *Intake {
	i := &Intake{from: source{nc: nc, count: count, pace: pace{patience: patience, slow: slow}}}
	i.Reader = bufio.NewReaderSize(&i.from, readBuffer)
	return i
}

// Read implements io.Reader. A peer that makes progress gets more time.
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

// until sets the deadline of later reads, unless Stop has set the final one.
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

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// Stop ends the reading, at once if it is waiting. The connection then ends as soon as its
// calls are answered.
func (i *Intake) Stop() {
	if !i.from.stopped.Swap(true) {
		_ = i.from.nc.SetReadDeadline(longAgo) // fails when the connection has ended already
	}
}

// lingerStep is how long a peer may take none of its last replies.
const lingerStep = 5 * time.Second

// Linger lets the peer of a connection that was stopped read its last replies, for at most
// patience. A socket that is closed with unread calls resets the connection, and its peer loses
// the replies that have not arrived.
func (i *Intake) Linger(patience time.Duration) {
	nc, until := i.from.nc, time.Now().Add(patience)
	half, ok := nc.(interface{ CloseWrite() error })
	left := queued(nc, unix.SIOCOUTQ)
	if !i.Stopped() || !ok || left+queued(nc, unix.SIOCINQ) == 0 || half.CloseWrite() != nil {
		return
	}
	for time.Now().Before(until) {
		_ = nc.SetReadDeadline(time.Now().Add(min(lingerStep, time.Until(until))))
		_, err := io.Copy(io.Discard, nc)
		n := queued(nc, unix.SIOCOUTQ)
		if !isDeadline(err) || n == 0 || n >= left {
			return
		}
		left = n
	}
}

// Stopped reports whether Stop was called.
func (i *Intake) Stopped() bool { return i.from.stopped.Load() }

// Behind returns how far the peer is behind Floor with sending the current record.
func (i *Intake) Behind() time.Duration { return i.from.pace.behind() }

// Await waits for the first byte of a record.
func (i *Intake) Await() error {
	i.from.pace.end()
	i.begun.Store(false)
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
	i.begun.Store(true)
	return nil
}

// Begun reports whether a record has begun since the last call of Await.
func (i *Intake) Begun() bool { return i.begun.Load() && !i.Stopped() }

// Expect starts timing the peer, unless n bytes have arrived already.
func (i *Intake) Expect(n int) error {
	if i.Buffered() >= n {
		return nil
	}
	return i.Again()
}

// Again restarts the timing of the peer, after a wait that it did not cause.
func (i *Intake) Again() error {
	i.from.timed = true
	return i.from.until(i.from.pace.begin())
}

// Arrive waits for the next n bytes, or for as many as can be read ahead.
func (i *Intake) Arrive(n int) error {
	n = min(n, readBuffer)
	if err := i.Expect(n); err != nil {
		return err
	}
	_, err := i.Peek(n)
	return oncrpc.Unexpected(err)
}
