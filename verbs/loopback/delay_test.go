package loopback

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

const second = time.Second

// took runs f in a bubble's time and checks how long it took there.
func took(t *testing.T, what string, want time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if got := time.Since(start); got != want {
		t.Errorf("%s took %v, not %v", what, got, want)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		var pair *verbstest.Pair
		took(t, "connect", 2*second, func() { pair = verbstest.NewPair(t, p, p, verbstest.Options{}) })
		a, b := pair.A, pair.B
		took(t, "Send", second, func() {
			b.Receive(1, 0, 10)
			a.Post(verbstest.Send(2, a.SGE(0, 10)))
			took(t, "completion of the Send", 0, func() { a.Done(2, verbs.WCSend) })
			b.Got(1, 10)
		})
		took(t, "Read", 2*second, func() {
			a.Post(verbstest.Read(3, b.Remote(0), a.SGE(0, 10)))
			a.Done(3, verbs.WCRDMARead)
		})
		p.Fabric().SetDelay(0)
		took(t, "Read without delay", 0, func() {
			a.Post(verbstest.Read(3, b.Remote(0), a.SGE(0, 10)))
			a.Done(3, verbs.WCRDMARead)
		})
	})
}

// What is sent after the delay fell does not overtake what was sent before.
func TestDelayChangeKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		for i := range uint64(3) {
			b.Receive(i, 0, 10)
		}
		p.Fabric().SetDelay(3 * second)
		if d := p.Fabric().Delay(); d != 3*second {
			t.Errorf("delay is %v", d)
		}
		a.Post(verbstest.Send(1, a.SGE(0, 1)))
		p.Fabric().SetDelay(second)
		a.Post(verbstest.Send(2, a.SGE(0, 2)))
		p.Fabric().SetDelay(0)
		a.Post(verbstest.Send(3, a.SGE(0, 3)))
		took(t, "all Sends", 3*second, func() {
			for i := range uint64(3) {
				b.Got(i, int(i)+1)
			}
		})
	})
}

// Each direction has its own time: what is due first arrives first.
func TestDelayPerDirection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		for _, s := range []*verbstest.Side{pair.A, pair.B} {
			s.Receive(1, 0, 10)
		}
		p.Fabric().SetDelay(3 * second)
		pair.B.Post(verbstest.Send(1, pair.B.SGE(0, 1)))
		p.Fabric().SetDelay(second)
		pair.A.Post(verbstest.Send(1, pair.A.SGE(0, 2)))
		took(t, "the later Send", second, func() { pair.B.Got(1, 2) })
		took(t, "the earlier Send", 2*second, func() { pair.A.Got(1, 1) })
	})
}

// No more Reads than negotiated are under way at once.
func TestReadDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{Reads: 2})
		for i := range uint64(5) {
			pair.A.Post(verbstest.Read(i, pair.B.Remote(0), pair.A.SGE(0, 8)))
		}
		took(t, "5 Reads, 2 at a time", 3*2*second, func() {
			for i := range uint64(5) {
				pair.A.Done(i, verbs.WCRDMARead)
			}
		})
	})
}

// What is posted after Disconnect is not sent, but flushed.
func TestPostAfterDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		b.Receive(1, 0, 10)
		a.Post(verbstest.Read(2, b.Remote(0), a.SGE(0, 8)))
		must(t, a.ID.Disconnect())
		a.Post(verbstest.Send(3, a.SGE(0, 3)))
		took(t, "Read before the end", 2*second, func() { a.Done(2, verbs.WCRDMARead) })
		if wc := a.Sent(); wc.ID != 3 || wc.Status != verbs.WCWRFlushErr {
			t.Errorf("send: %+v (%v)", wc, wc.Status)
		}
		took(t, "the end at the peer", second, func() { b.Ended() })
		if wc := b.Received(); wc.ID != 1 || wc.Status != verbs.WCWRFlushErr {
			t.Errorf("receive: %+v (%v)", wc, wc.Status)
		}
	})
}

// An iWARP Write has succeeded when it has left, even if the peer refuses it.
func TestRefusedWriteHasLeft(t *testing.T) {
	for _, delay := range []time.Duration{0, second} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{Network: FabricConfig{Delay: delay}})
			pair := verbstest.NewPair(t, p, p, verbstest.Options{})
			pair.A.Post(verbstest.Write(1, verbstest.Remote{}, pair.A.SGE(0, 8)))
			pair.A.Done(1, verbs.WCRDMAWrite)
			pair.A.Ended()
		})
	}
}

// The data of a Send is what it was when the Send completed.
func TestDelayedDataIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		b.Receive(1, 0, 10)
		copy(a.Bytes(0, 3), "old")
		a.Post(verbstest.Send(2, a.SGE(0, 3)))
		a.Done(2, verbs.WCSend)
		copy(a.Bytes(0, 3), "new")
		b.Got(1, 3)
		if got := string(b.Bytes(0, 3)); got != "old" {
			t.Errorf("received %q", got)
		}
	})
}

// On InfiniBand a Send completes when the peer has acknowledged it.
func TestAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Transport: InfiniBand, Delay: second}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		pair.B.Receive(1, 0, 10)
		took(t, "Send and Write", 2*second, func() {
			pair.A.Post(verbstest.Send(2, pair.A.SGE(0, 3)), verbstest.Write(3, pair.B.Remote(0), pair.A.SGE(0, 3)))
			pair.A.Done(2, verbs.WCSend)
			pair.A.Done(3, verbs.WCRDMAWrite)
		})
	})
}

// More than a wire takes waits in the send queue.
func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		src := a.Register(make([]byte, wireBytes/2+1), 0)
		sink := b.Register(make([]byte, wireBytes/2+1), verbs.AccessRemoteWrite|verbs.AccessLocalWrite)
		sge := verbs.SGE{MR: src, Length: len(src.Bytes())}
		for i := range uint64(3) {
			a.Post(verbstest.Write(i, verbstest.RemoteMR(sink), sge))
		}
		took(t, "first Write", 0, func() { a.Done(0, verbs.WCRDMAWrite) })
		took(t, "second Write", second, func() { a.Done(1, verbs.WCRDMAWrite) })
		took(t, "third Write", second, func() { a.Done(2, verbs.WCRDMAWrite) })
	})
}

// A Disconnect does not wait for a peer that takes nothing longer than
// drainTime.
func TestDrainTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Transport: InfiniBand}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		pair.A.Post(verbstest.Send(1, pair.A.SGE(0, 3)))
		took(t, "end", drainTime, func() {
			must(t, pair.A.ID.Disconnect())
			if st := pair.A.QP.State(); st != verbs.QPSQD {
				t.Errorf("draining in state %d", st)
			}
			// Posted after Disconnect: not sent, but flushed.
			pair.A.Post(verbstest.Send(2, pair.A.SGE(0, 3)))
			if err := pair.A.Ended(); !errors.Is(err, errDrain) {
				t.Errorf("ended with %v", err)
			}
			pair.B.Ended()
		})
		for id := range uint64(2) {
			if wc := pair.A.Sent(); wc.ID != id+1 || wc.Status != verbs.WCWRFlushErr {
				t.Errorf("send: %+v", wc)
			}
		}
	})
}

// Receiver not ready, InfiniBand: the Send waits, and answers pass it.
func TestReceiverNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Transport: InfiniBand}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		a.Post(verbstest.Send(1, a.SGE(0, 3)), verbstest.Write(2, b.Remote(0), a.SGE(0, 3)))
		b.Post(verbstest.Read(3, a.Remote(0), b.SGE(0, 10)))
		took(t, "Read past a Send that waits", 0, func() { b.Done(3, verbs.WCRDMARead) })
		<-time.After(9 * second)
		b.Receive(4, 0, 10)
		took(t, "Send", 0, func() {
			b.Got(4, 3)
			a.Done(1, verbs.WCSend)
			a.Done(2, verbs.WCRDMAWrite)
		})
	})
}

// A Connect that times out while its request, or the answer, is under way
// leaves no connection behind.
func TestConnectTimeoutUnderWay(t *testing.T) {
	for _, after := range []time.Duration{second / 2, 3 * second / 2} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{Network: FabricConfig{Delay: second}})
			l, err := p.Listen(t.Context(), ":20049")
			must(t, err)
			defer l.Close()
			done := make(chan error)
			go func() {
				s, err := verbstest.Accept(t.Context(), t, l, verbstest.Options{})
				if err == nil {
					s.Ended()
					s.Close()
				}
				done <- err
			}()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			took(t, "connect", after, func() {
				_, err = verbstest.Dial(ctx, t, p, "127.0.0.1:20049", verbstest.Options{})
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("connect: %v", err)
			}
			if after < second { // the request never arrived
				should(t, l.Close())
			}
			if err := <-done; (err == nil) != (after > second) {
				t.Errorf("accept: %v", err)
			}
		})
	}
}

// An address without a listener answers after one round trip.
func TestUnreachableDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Network: FabricConfig{Delay: second}})
		took(t, "connect", 2*second, func() {
			if _, err := verbstest.Dial(t.Context(), t, p, "127.0.0.1:1", verbstest.Options{}); !errors.Is(err, rdmacm.ErrUnreachable) {
				t.Errorf("connect: %v", err)
			}
		})
	})
}
