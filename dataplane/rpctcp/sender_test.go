package rpctcp

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// writeConn is a connection that is only written to.
type writeConn struct {
	net.Conn
	mu     sync.Mutex
	grown  sync.Cond // of out
	out    bytes.Buffer
	writes int           // deadlines set, one for each batch
	err    error         // of writes from now on
	hold   chan struct{} // writes wait until it is closed
	begun  chan struct{} // gets one value for each write
}

func newWriteConn() *writeConn {
	c := &writeConn{hold: make(chan struct{}), begun: make(chan struct{}, 100)}
	c.grown.L = &c.mu
	return c
}

func (c *writeConn) SetWriteDeadline(time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	return nil
}

func (c *writeConn) Write(b []byte) (int, error) {
	c.begun <- struct{}{}
	<-c.hold
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.grown.Broadcast()
	return c.out.Write(b)
}

// letter is an Outgoing record of one piece.
type letter struct {
	text   []byte
	result chan error
}

func newLetter(text []byte) *letter { return &letter{text: text, result: make(chan error, 1)} }

func (l *letter) AppendTo(vec net.Buffers) net.Buffers { return append(vec, l.text) }
func (l *letter) Sent(err error)                       { l.result <- err }

// TestSenderBatches has records given while one is being written go out
// together, in their order.
func TestSenderBatches(t *testing.T) {
	conn := newWriteConn()
	s := Sender{nc: conn, failed: func(err error) { t.Error(err) }}
	first := newLetter([]byte("0"))
	go s.Send(first)
	<-conn.begun
	var rest []*letter
	want := "0"
	for i := range 20 {
		l := newLetter([]byte{'a' + byte(i)})
		want += string(l.text)
		rest = append(rest, l)
		s.Send(l) // does not wait: another goroutine writes
	}
	close(conn.hold)
	for _, l := range append(rest, first) {
		if err := <-l.result; err != nil {
			t.Error(err)
		}
	}
	if conn.out.String() != want || conn.writes != 2 {
		t.Errorf("%q in %d batches, want %q in 2", conn.out.String(), conn.writes, want)
	}
}

// TestSenderSplitsBatches gives each batchBytes a deadline of its own.
func TestSenderSplitsBatches(t *testing.T) {
	conn := newWriteConn()
	s := Sender{nc: conn, failed: func(err error) { t.Error(err) }}
	first := newLetter([]byte("0"))
	go s.Send(first)
	<-conn.begun
	var rest []*letter
	for range 4 {
		rest = append(rest, newLetter(make([]byte, batchBytes/2)))
		s.Send(rest[len(rest)-1])
	}
	close(conn.hold)
	for _, l := range append(rest, first) {
		if err := <-l.result; err != nil {
			t.Error(err)
		}
	}
	if conn.out.Len() != 1+2*batchBytes || conn.writes != 3 {
		t.Errorf("%d bytes in %d batches", conn.out.Len(), conn.writes)
	}
}

// TestSenderFails lets nothing follow a write that failed.
func TestSenderFails(t *testing.T) {
	broken := errors.New("broken")
	conn := newWriteConn()
	conn.err = broken
	var told []error
	s := Sender{nc: conn, failed: func(err error) { told = append(told, err) }}
	first, second := newLetter([]byte("first")), newLetter(make([]byte, batchBytes))
	third := newLetter([]byte("third"))
	go s.Send(first)
	<-conn.begun
	s.Send(second)
	s.Send(third) // in a batch after second's
	close(conn.hold)
	for i, l := range []*letter{first, second, third} {
		if err := <-l.result; !errors.Is(err, broken) {
			t.Errorf("letter %d: %v", i, err)
		}
	}
	conn.mu.Lock()
	conn.err = nil
	conn.mu.Unlock()
	late := newLetter([]byte("late"))
	s.Send(late)
	if err := <-late.result; !errors.Is(err, broken) {
		t.Errorf("after the failure: %v", err)
	}
	if conn.out.Len() != 0 || len(told) != 1 {
		t.Errorf("%q was written; told %v", conn.out.String(), told)
	}
}

// parcel is an Arriving record of two pieces.
type parcel struct {
	letter
	second []byte
	there  chan int // how many bytes have arrived
	err    error    // once that is closed
}

func (p *parcel) AppendTo(vec net.Buffers) net.Buffers { return append(vec, p.text, p.second) }
func (p *parcel) Whole() bool                          { return false }

func (p *parcel) Arrived(sent int) (int, error) {
	n, ok := <-p.there
	if !ok {
		return 0, p.err
	}
	if n <= sent {
		panic("nothing new")
	}
	return n, nil
}

// written waits until so many bytes in all are written.
func (c *writeConn) written(n int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.Len() < n {
		c.grown.Wait()
	}
	return c.out.String()
}

// TestSenderArriving: a record that arrives is written as far as it is there. Other records
// come before it or after it. The goroutine that sends another one does not wait for it.
func TestSenderArriving(t *testing.T) {
	conn := newWriteConn()
	s := Sender{nc: conn, failed: func(err error) { t.Error(err) }}
	first, before, after := newLetter([]byte("0")), newLetter([]byte("x")), newLetter([]byte("y"))
	p := &parcel{letter: *newLetter([]byte("he")), second: []byte("llo"), there: make(chan int)}
	returned := make(chan struct{})
	go func() {
		s.Send(first)
		close(returned)
	}()
	<-conn.begun
	for _, o := range []Outgoing{before, p, after} {
		s.Send(o)
	}
	close(conn.hold)
	<-returned
	for _, step := range []struct {
		there int
		want  string
	}{{1, "0xh"}, {3, "0xhel"}, {5, "0xhello"}} {
		if len(p.result)+len(after.result) > 0 {
			t.Error("sent before it has arrived")
		}
		p.there <- step.there
		if got := conn.written(len(step.want)); got[:len(step.want)] != step.want || step.there < 5 && got != step.want {
			t.Errorf("%q was written, want %q", got, step.want)
		}
	}
	for _, l := range []*letter{first, before, &p.letter, after} {
		if err := <-l.result; err != nil {
			t.Error(err)
		}
	}
	if got := conn.written(0); got != "0xhelloy" {
		t.Errorf("%q was written", got)
	}
}

// reused is a record that is whole. When it was sent, it becomes a parcel, which another
// goroutine sends. Calls of package forward are reused like that.
type reused struct {
	parcel
	whole bool
	again func() // sends it
}

func (r *reused) Whole() bool { return r.whole }

func (r *reused) Sent(err error) {
	if r.whole {
		r.whole = false
		r.again()
		return
	}
	r.parcel.Sent(err)
}

// TestSenderReused: a goroutine whose record was sent does not wait for another goroutine's
// record that arrives, even if that has the same memory.
func TestSenderReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newWriteConn()
		close(conn.hold)
		s := Sender{nc: conn, failed: func(err error) { t.Error(err) }}
		r := &reused{whole: true, parcel: parcel{letter: *newLetter([]byte("he")), second: []byte("llo"), there: make(chan int)}}
		r.again = func() {
			queued := make(chan struct{})
			go func() {
				s.Send(r)
				close(queued)
			}()
			<-queued
		}
		returned := make(chan struct{})
		go func() {
			s.Send(r)
			close(returned)
		}()
		synctest.Wait()
		select {
		case <-returned:
		default:
			t.Error("the first goroutine waits for the second one's record")
		}
		r.there <- 5
		if err := <-r.result; err != nil {
			t.Error(err)
		}
		<-returned
		if got := conn.written(0); got != "hellohello" {
			t.Errorf("%q was written", got)
		}
	})
}

// TestSenderArrivingFails: after a record that does not arrive whole, nothing more is
// written.
func TestSenderArrivingFails(t *testing.T) {
	broken := errors.New("broken")
	conn := newWriteConn()
	close(conn.hold)
	var told []error
	s := Sender{nc: conn, failed: func(err error) { told = append(told, err) }}
	for range 2 {
		p := &parcel{letter: *newLetter([]byte("he")), second: []byte("llo"), there: make(chan int, 1), err: broken}
		p.there <- 4
		close(p.there)
		s.Send(p)
		if err := <-p.result; !errors.Is(err, broken) {
			t.Errorf("sent: %v", err)
		}
	}
	late := newLetter([]byte("late"))
	s.Send(late)
	if err := <-late.result; !errors.Is(err, broken) || conn.out.String() != "hell" || len(told) != 1 {
		t.Errorf("%v; %q was written; told %v", err, conn.out.String(), told)
	}
}
