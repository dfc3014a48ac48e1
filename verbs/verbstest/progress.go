package verbstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Providers may receive within Wait. The tests of this file have consumers that wait,
// stop waiting, and do something else: the peer must not depend on them.

// message sends one message to B, which takes it: B is a consumer that has waited.
func (p *Pair) message(id uint64) {
	p.B.Receive(id, 0, 8)
	p.A.Post(Send(id, p.A.SGE(0, 8)))
	p.B.Got(id, 8)
	p.A.Done(id, verbs.WCSend)
}

// readsFromB makes A read from B.
func (p *Pair) readsFromB(n uint64) {
	for id := range n {
		p.A.Post(Read(id, p.B.Remote(0), p.A.SGE(64, 8)))
		p.A.Done(id, verbs.WCRDMARead)
	}
}

// A peer's RDMA Reads are answered while the consumer serves a long call, between two
// waits.
func testProgressWithoutWait(e *env) {
	p := e.pair(Options{OneCQ: true})
	p.readsFromB(2)
	for id := range uint64(4) {
		p.message(id)
		p.readsFromB(2) // B does not wait
	}
	p.message(9)
}

// A peer's RDMA Reads are answered, and messages completed, after a wait whose context
// ended.
func testProgressAfterWait(e *env) {
	p := e.pair(Options{OneCQ: true})
	for id := range uint64(4) {
		ctx, cancel := context.WithCancel(e.Context())
		waits := make(chan error)
		go func() { waits <- p.B.RecvCQ.Wait(ctx) }()
		p.readsFromB(1) // B waits
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			e.Fatalf("wait: %v", err)
		}
		p.readsFromB(2)
		p.message(id)
	}
}

// The end of the connection is noticed by a consumer that does not wait.
func testEndWithoutWait(e *env) {
	for _, end := range []func(*Side) error{
		func(s *Side) error { s.QP.Fail(); return nil },
		func(s *Side) error { return s.QP.Close() },
		func(s *Side) error { return s.ID.Disconnect() },
	} {
		p := e.pair(Options{OneCQ: true})
		p.message(1)
		Must(e, end(p.A))
		p.B.Ended()
		p.Close()

		p = e.pair(Options{OneCQ: true})
		p.message(1)
		Must(e, end(p.B)) // the consumer itself, between two waits
		p.A.Ended()
		p.Close()
	}
}

// Wait with a context that has ended finds what has arrived.
func testWaitLooks(e *env) {
	p := e.pair(Options{OneCQ: true})
	ended, cancel := context.WithCancel(e.Context())
	cancel()
	ctx := e.patience()
	for id := range uint64(50) {
		if err := p.B.RecvCQ.Wait(ended); !errors.Is(err, context.Canceled) {
			e.Fatalf("wait without a message: %v", err)
		}
		p.B.Receive(id, 0, 8)
		p.A.Post(Send(id, p.A.SGE(0, 8)))
		for p.B.RecvCQ.Wait(ended) != nil {
			Must(e, ctx.Err())
		}
		p.B.Got(id, 8)
		p.A.Done(id, verbs.WCSend)
	}
}

// A goroutine that waits is woken up by the completion of a request that another
// goroutine posts, though nothing arrives.
func testWaitWakesForSends(e *env) {
	p := e.pair(Options{OneCQ: true})
	p.message(0)
	for id := range uint64(200) {
		p.B.Receive(id, 0, 8)
		var posted sync.WaitGroup
		posted.Go(func() { p.A.Post(Send(id, p.A.SGE(0, 8))) })
		p.A.Done(id, verbs.WCSend)
		posted.Wait()
		if id%2 == 0 {
			p.B.Got(id, 8)
		} else {
			for p.B.RecvCQ.Poll(make([]verbs.WC, 1)) == 0 {
				Must(e, e.Context().Err())
			}
		}
	}
}

// Both consumers wait in ways chosen at random, while messages and RDMA Reads go both
// ways: each completes once, in order.
func testWaitAtRandom(e *env) {
	const count, size = 300, 16
	p := e.pair(Options{OneCQ: true})
	ctx := e.patience()
	for _, s := range []*Side{p.A, p.B} {
		for i := range 8 {
			s.Receive(uint64(i), i*size, size)
		}
	}
	errs := make(chan error, 2)
	for i, s := range []*Side{p.A, p.B} {
		peer := []*Side{p.B, p.A}[i]
		c := &whimsical{Side: s, peer: peer, mr: s.Register(make([]byte, 2*size), verbs.AccessLocalWrite|verbs.AccessRemoteWrite), rand: rand.New(rand.NewPCG(1, uint64(i)))}
		go func() { errs <- c.run(ctx, count, size) }()
	}
	for range 2 {
		Must(e, <-errs)
	}
}

// whimsical is a consumer that never knows how to wait. It sends a message, then reads
// from its peer, and so on; it takes as many messages as it sends.
type whimsical struct {
	*Side
	peer *Side
	mr   verbs.MR
	rand *rand.Rand

	sent, done, got uint64
}

func (c *whimsical) run(ctx context.Context, count uint64, size int) error {
	for c.done < 2*count || c.got < count {
		// The peer has eight Receives posted, and has taken what it has answered.
		if c.sent == c.done && c.sent < 2*count && c.sent/2 < c.got+4 {
			binary.BigEndian.PutUint64(c.mr.Bytes(), c.sent/2)
			wr := Send(c.sent, verbs.SGE{MR: c.mr, Length: size})
			if c.sent%2 == 1 {
				wr = Read(c.sent, c.peer.Remote(1024), verbs.SGE{MR: c.mr, Offset: size, Length: size})
			}
			wr.Flags |= verbs.SendSignaled
			if _, err := c.QP.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			c.sent++
		}
		if err := c.wait(ctx); err != nil {
			return fmt.Errorf("sent %d, done %d, got %d: %w", c.sent, c.done, c.got, err)
		}
		if err := c.poll(size); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a completion, perhaps.
func (c *whimsical) wait(ctx context.Context) error {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	switch c.rand.IntN(6) {
	case 0:
		cancel()
		_ = c.RecvCQ.Wait(short)
	case 1:
		go cancel()
		_ = c.RecvCQ.Wait(short)
	case 2:
		n, ok := c.RecvCQ.(verbs.Notifier)
		noticed := make(chan struct{})
		if ok && n.ReqNotify(func() { close(noticed) }) {
			select {
			case <-noticed:
			case <-ctx.Done():
			}
		}
	case 3: // polls without waiting
	case 4:
		if n, ok := c.RecvCQ.(verbs.Notifier); ok {
			n.ReqNotify(func() {})
		}
		return c.RecvCQ.Wait(ctx)
	default:
		return c.RecvCQ.Wait(ctx)
	}
	return ctx.Err()
}

func (c *whimsical) poll(size int) error {
	var wcs [4]verbs.WC
	for _, wc := range wcs[:c.RecvCQ.Poll(wcs[:])] {
		switch {
		case wc.Status != verbs.WCSuccess:
			return fmt.Errorf("%+v: %w", wc, c.QP.Err())
		case wc.Op != verbs.WCRecv:
			if wc.ID != c.done {
				return fmt.Errorf("request %d completed, not %d", wc.ID, c.done)
			}
			c.done++
			continue
		}
		at := int(wc.ID) * size
		if n := binary.BigEndian.Uint64(c.Bytes(at, size)); n != c.got || wc.ID != c.got%8 {
			return fmt.Errorf("message %d in Receive %d, not message %d", n, wc.ID, c.got)
		}
		c.got++
		if _, err := c.QP.PostRecv([]verbs.RecvWR{{ID: wc.ID, SGL: []verbs.SGE{c.SGE(at, size)}}}); err != nil {
			return err
		}
	}
	return nil
}
