package rpcrdma_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// writer connects a raw client, with memory data, that does not accept remote invalidation.
func (b *bed) writer() (r *raw, c *rpcrdma.Conn, data verbs.MR) {
	b.t.Helper()
	r = b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
	c = <-b.conns
	data = r.memory(1<<20, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	r.exchange(message(rpcrdma1.Header{XID: 1 << 20}, procNull))
	return r, c, data
}

// TestReadWindow: while a peer answers RDMA Reads soon, the second half of one call and the whole
// next one are read at one time. From a peer far away everything is read at once.
func TestReadWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		r, c, data := newBed(t, p, bedConfig{timeout: time.Hour}).writer()
		xid := uint32(0)
		// held makes calls of the given sizes while the answers of Reads take a second. It
		// returns how many Reads are posted before any is answered, and in all.
		held := func(sizes ...int) (posted, all uint64) {
			t.Helper()
			before := c.Stats()
			write := func(n int) {
				xid++
				r.post(writing(xid, data, n))
			}
			holdReads(p, time.Second, func() { write(sizes[0]) })
			for _, n := range sizes[1:] {
				write(n)
			}
			synctest.Wait()
			posted = c.Stats().RDMAReads - before.RDMAReads
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if n := c.Stats().Replies - before.Replies; n != uint64(len(sizes)) {
				t.Errorf("%d replies to %d calls", n, len(sizes))
			}
			return posted, c.Stats().RDMAReads - before.RDMAReads
		}
		check := func(what string, want, wantAll uint64, sizes ...int) {
			t.Helper()
			if n, all := held(sizes...); n != want || all != wantAll {
				t.Errorf("%s: %d Reads at once, %d in all; want %d and %d", what, n, all, want, wantAll)
			}
		}
		const half, whole = 512 << 10, 1 << 20
		check("whole calls", 1, 1+2+2+2, whole, whole, whole, whole)
		check("half a call before", 1+2, 1+2+2+1, half, whole, whole, half)
		check("small calls", 3, 4, half, half, half, half)
		r.seemFar(p, data)
		check("far away", 1+2+2+2, 1+2+2+2, whole, whole, whole, whole)
		r.post(writing(0, data, whole)) // this one is answered soon
		synctest.Wait()
		check("near again", 1, 1+2+2, whole, whole, whole)
	})
}

// TestHalfIsEnough: a call is read as soon as the first half of the one before has come.
func TestHalfIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		r, c, data := newBed(t, p, bedConfig{timeout: time.Hour}).writer()
		delays := map[int]time.Duration{1: time.Millisecond, 3: time.Second} // the second and third Read are one call
		reads := 0
		p.Fabric().SetFaults(loopback.Faults{Request: func(r loopback.Request) verbs.WCStatus {
			if r.Op == verbs.OpRDMARead {
				reads++
				p.Fabric().SetDelay(delays[reads])
			}
			return verbs.WCSuccess
		}})
		r.post(writing(1, data, 1<<20))
		synctest.Wait()
		p.Fabric().SetDelay(0)
		r.post(writing(2, data, 1<<20))
		r.post(writing(3, data, 1<<20))
		time.Sleep(10 * time.Millisecond)
		if n := c.Stats().RDMAReads; n != 1+2+2 {
			t.Errorf("%d Reads before the second half of the second call has come", n)
		}
		p.Fabric().SetFaults(loopback.Faults{})
		p.Fabric().SetDelay(0)
		time.Sleep(3 * time.Second)
	})
}

// TestFarAwayStays: a peer is still far away after calls that were read at once, although the last of them took no
// longer than a near peer may take for as much.
func TestFarAwayStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		r, c, data := newBed(t, p, bedConfig{timeout: time.Hour}).writer()
		r.seemFar(p, data)
		for round := range 3 {
			before := c.Stats().RDMAReads
			holdReads(p, 2*time.Millisecond, func() { r.post(writing(1, data, 1<<20)) })
			for i := range uint32(7) {
				r.post(writing(2+i, data, 1<<20))
			}
			synctest.Wait()
			if n := c.Stats().RDMAReads - before; n != 1+7*2 {
				t.Errorf("round %d: %d Reads at once", round, n)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestSlowServiceIsNotFar: Reads that begin when a service ends, because the connection had no memory
// before, are measured from then on.
func TestSlowServiceIsNotFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		let := make(chan struct{})
		b := newBed(t, p, bedConfig{timeout: time.Hour, memory: 128 << 20, handler: handlerFunc(func(_ context.Context, c *call, _ *reply) error {
			if c.Procedure == procWrite {
				<-let
			}
			return nil
		})})
		r, c, data := b.writer()
		for i := range uint32(24) {
			r.post(writing(i, data, 1<<20))
		}
		synctest.Wait()
		for range 24 {
			time.Sleep(time.Second)
			let <- struct{}{}
			synctest.Wait()
		}
		before := c.Stats().RDMAReads
		holdReads(p, time.Millisecond, func() { r.post(writing(100, data, 1<<20)) })
		r.post(writing(101, data, 1<<20))
		synctest.Wait()
		if n := c.Stats().RDMAReads - before; n != 1 {
			t.Errorf("%d Reads at once", n)
		}
		close(let)
		time.Sleep(time.Second)
	})
}

// TestSlowReadsBefore: a call that waits for the Reads of calls before it waits for the peer, and not
// for memory.
func TestSlowReadsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		slow := newSlowCalls(time.Second)
		b := newBed(t, p, bedConfig{timeout: time.Hour, slow: slow.config()})
		r, _, data := b.writer()
		holdReads(p, time.Second, func() { r.post(writing(1, data, 1<<20)) })
		r.post(writing(2, data, 1<<20))
		time.Sleep(2 * time.Second)
		calls := slow.take()
		if len(calls) != 2 {
			t.Fatalf("%d slow calls", len(calls))
		}
		for _, c := range calls {
			if c.Receive != 0 || c.Read != time.Second {
				t.Errorf("%v to receive, %v to read", c.Receive, c.Read)
			}
		}
	})
}
