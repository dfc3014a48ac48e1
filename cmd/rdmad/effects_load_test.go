package main

import (
	"sync"
	"sync/atomic"
	"testing"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// busy makes calls, so many at a time, until it is stopped.
type busy struct {
	t      *testing.T
	made   atomic.Uint64
	ended  atomic.Bool
	more   chan struct{} // holds a token after a call
	depart sync.WaitGroup
}

func newBusy(t *testing.T, c *rpcrdma.Client, depth int) *busy {
	b := &busy{t: t, more: make(chan struct{}, 1)}
	for i := range depth {
		b.depart.Go(func() {
			w := newCaller(t, c, uint64(i))
			defer w.buf.Release()
			for n := 0; !b.ended.Load(); n++ {
				var ok bool
				var err error
				if n%2 == 0 {
					ok, err = w.read(n * 37 % readSize)
				} else {
					ok, err = w.echo(n % echoSize &^ 3)
				}
				if err != nil || !ok {
					t.Errorf("call %d: %v, answer right: %v", n, err, ok)
					b.ended.Store(true)
				}
				b.made.Add(1)
				select {
				case b.more <- struct{}{}:
				default:
				}
			}
		})
	}
	return b
}

// wait waits for so many calls more. They would not come if one stood still.
func (b *busy) wait(n uint64) {
	for until := b.made.Load() + n; b.made.Load() < until && !b.ended.Load(); {
		<-b.more
	}
}

func (b *busy) stop() uint64 {
	b.ended.Store(true)
	b.depart.Wait()
	return b.made.Load()
}

// credits.max moves under 64 callers: nobody overruns what was granted, which
// would end the connection, and nobody waits for ever.
func TestCreditsMoveUnderLoad(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	const depth = 64
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) { s.CreditsMax = 128 }, false)
	first := o.connection()
	b := newBusy(t, c, depth)
	for _, most := range []uint32{64, 1, 32, 128, 2, 64, 1, 8, 64, 3, 100, 64} {
		o.apply(credits(most))
		b.wait(500)
		if now := o.connection(); now.GetCreditsGranted() != most || now.GetId() != first.GetId() {
			t.Errorf("with credits.max %d the connection is %v", most, now)
		}
	}
	made := b.stop()
	now := o.connection()
	if now.GetId() != first.GetId() || now.GetErrors() != 0 || now.GetCalls() != float64(made) {
		t.Errorf("after %d calls the connection is %v", made, now)
	}
	if s := c.Stats(); c.Info().Connects != 1 || s.Errors+s.BadReplies+s.BadXIDs != 0 {
		t.Errorf("the client counts %+v", s)
	}
}

// inline.receive_size waits for the next connection, which a drain brings
// about: calls go on, none is lost.
func TestReceiveSizeComesWithTheNextConnection(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) { s.InlineSendMax = 16384 }, true)
	b := newBusy(t, c, 16)
	defer b.stop()
	for i, size := range []uint32{8192, 2048, 4096} {
		b.wait(200)
		before := o.connection()
		e := o.set(&rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{ReceiveSize: &size}})
		if e.GetOutcome() != rdmadv1.Effect_PENDING_RECONNECT || e.GetConnectionId() != before.GetId() {
			t.Errorf("%d: %v", size, e)
		}
		b.wait(200)
		if now := o.connection(); now.GetId() != before.GetId() || now.GetInlineReceive() != before.GetInlineReceive() {
			t.Errorf("%d: it changed before the drain: %v", size, now)
		}
		if res, err := o.connections.DrainConnection(t.Context(), &rdmadv1.DrainConnectionRequest{Id: before.GetId()}); err != nil || res.GetCut() {
			t.Fatalf("drain: %v, %v", res, err)
		}
		b.wait(200)
		after := o.connection()
		if after.GetId() == before.GetId() || after.GetInlineReceive() != size {
			t.Errorf("%d: after the drain it is %v", size, after)
		}
		if now := c.Info(); now.InlineSend != size || now.Connects != uint64(i)+2 {
			t.Errorf("%d: the client sends up to %d on its connection %d", size, now.InlineSend, now.Connects)
		}
	}
}
