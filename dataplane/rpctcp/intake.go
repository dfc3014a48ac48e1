package rpctcp

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// ErrStopped ends the reading of a connection that takes no more calls.
var ErrStopped = errors.New("rpctcp: no more calls are taken")

// Intake is how long a peer may take for what is read of it: between records,
// and for one that has begun. One goroutine reads; Stop is anybody's.
type Intake struct {
	nc           net.Conn
	in           *bufio.Reader // of nc
	idle, record time.Duration
	stopped      atomic.Bool
}

// NewIntake is that of in, which reads from nc.
func NewIntake(nc net.Conn, in *bufio.Reader, idle, record time.Duration) *Intake {
	return &Intake{nc: nc, in: in, idle: idle, record: record}
}

// Stop has the reading end, now if it waits, so that the connection ends as
// soon as its calls are answered.
func (i *Intake) Stop() {
	i.stopped.Store(true)
	_ = i.nc.SetReadDeadline(time.Unix(1, 0)) // fails when the connection has ended already
}

// Stopped says whether no further calls are to be read.
func (i *Intake) Stopped() bool { return i.stopped.Load() }

// Await waits for the first byte of a record. The peer may be idle for longer
// than allowed while it is busy: while calls are in flight.
func (i *Intake) Await(busy func() bool) error {
	for i.in.Buffered() == 0 && !i.Stopped() {
		if err := i.within(i.idle); err != nil {
			return err
		}
		_, err := i.in.Peek(1)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if !busy() && !i.Stopped() {
			return fmt.Errorf("no call for %v", i.idle)
		}
	}
	if i.Stopped() {
		return ErrStopped
	}
	return nil
}

// Expect gives the peer the time of a record from now on, unless n bytes have
// arrived already.
func (i *Intake) Expect(n int) error {
	if i.in.Buffered() >= n {
		return nil
	}
	return i.Again()
}

// Again gives the peer the time of a record from now on, when what came before
// was not its doing.
func (i *Intake) Again() error { return i.within(i.record) }

// within sets the deadline of the reads to come, unless Stop has set one for
// good.
func (i *Intake) within(d time.Duration) error {
	if err := i.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if i.Stopped() {
		return ErrStopped
	}
	return nil
}
