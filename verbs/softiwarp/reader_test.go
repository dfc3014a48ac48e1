package softiwarp

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// away makes b's consumer away with the right to read: it has received its last message in
// Wait, and nobody takes the right from it.
func away(a, b *side) *queuePair {
	b.p.dev.watch.Close()
	q := b.qp.(*queuePair)
	for first := true; first || !q.reading.Away(); first = false { // the message may be there before it waits
		b.recv(verbs.RecvWR{})
		a.send(verbs.SendWR{Flags: verbs.SendSignaled})
		a.succeed(1)
		b.succeed(1)
	}
	return q
}

// TestWaiterReads: once a consumer has waited, only it reads: within Wait, and not between
// two waits.
func TestWaiterReads(t *testing.T) {
	a, b := connectPair(t, Config{}, Config{})
	q := away(a, b)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		b.recv(verbs.RecvWR{}, verbs.RecvWR{})
		a.send(verbs.SendWR{Flags: verbs.SendSignaled})
		b.succeed(1)
		a.succeed(1)
		if !q.reading.Away() {
			t.Fatal("the consumer does not have the right to read")
		}
		a.send(verbs.SendWR{Flags: verbs.SendSignaled})
		if b.cq.Poll(b.one[:]) != 0 {
			t.Fatal("somebody else has read")
		}
		for err := ended.Err(); err != nil; err = b.cq.Wait(ended) { // takes it in once it is there
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		b.succeed(1)
		a.succeed(1)
	}
}

// TestAwayEnds: a queue pair fails, is disconnected or closed while its consumer is away with
// the right to read and nobody takes that right.
func TestAwayEnds(t *testing.T) {
	for _, end := range []func(*side){
		func(s *side) { s.qp.Fail() },
		func(s *side) { s.qp.Close() },
		func(s *side) { _ = s.id.Disconnect() },
	} {
		a, b := connectPair(t, Config{}, Config{})
		q := away(a, b)
		end(b)
		<-q.done
	}
}

// TestQueuesApart: the receiving goroutine keeps the right to read a queue pair with two
// completion queues, and queue pairs that share one.
func TestQueuesApart(t *testing.T) {
	a, b := connectPair(t, Config{}, Config{})
	second := testAttr
	second.SendCQ, second.RecvCQ = b.cq, b.cq
	id := must(b.p.Resolve(t.Context(), "127.0.0.1:1"))(t)
	must(id.CreateQP(b.pd, second))(t)
	t.Cleanup(func() { id.Close() })
	for range 10 {
		b.recv(verbs.RecvWR{})
		a.send(verbs.SendWR{})
		b.succeed(1)
		if b.qp.(*queuePair).reading.Away() {
			t.Fatal("the consumer of a shared queue has the right to read")
		}
	}
}

// TestWaitWithinFPDU: a wait ends, and another begins, after half an FPDU has come. No byte
// of it is lost.
func TestWaitWithinFPDU(t *testing.T) {
	arena := newArena(t, Config{})
	p, s := arena.attach(rawRequest())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for msn := range uint32(20) {
		s.recv(verbs.RecvWR{})
		h := ddp.Header{ULP: rdmap.Control(rdmap.Send), QN: ddp.QueueSend, MSN: msn + 1, Last: true}
		fpdu := mpa.AppendFPDU(nil, h.Append(nil), p.crc)
		p.write(fpdu[:7])
		for range 3 {
			ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
			_ = s.cq.Wait(ctx) // reads the half, if nobody has, and waits for more
			stop()
			_ = s.cq.Wait(ended)
		}
		p.write(fpdu[7:])
		s.succeed(1)
	}
}

// TestInterruptedAtItsEnd: a connection does not end while the goroutine that reads it is being
// interrupted. Its socket would then be closed at once, in place of waiting for the peer.
func TestInterruptedAtItsEnd(t *testing.T) {
	arena := newArena(t, Config{lingerTimeout: time.Hour})
	p, s := arena.attach(rawRequest())
	q, c := s.qp.(*queuePair), s.cq.(*completionQueue)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = c.Wait(ctx)
	}()
	for c.Lock(); c.driving != q; c.Lock() {
		c.Unlock()
		time.Sleep(time.Millisecond)
	}
	p.message(rdmap.Send, 1, nil) // there is no Receive
	select {
	case <-s.id.Disconnected():
		t.Error("the connection has ended")
	case <-time.After(50 * time.Millisecond):
	}
	q.interrupt() // as Wake does
	c.Unlock()
	p.terminated(rdmap.UntaggedNoBuffer)
	for range 10 { // a closed socket answers the first with a reset
		if _, err := p.conn.Write([]byte{1}); err != nil {
			t.Fatalf("its socket does not wait for the peer: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-waited
}
