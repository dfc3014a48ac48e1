package transport

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// gate is a queue pair whose PostSend waits until the test lets it go.
type gate struct {
	verbs.QP
	posts chan []uint32  // the keys of what each call posts
	leave chan error     // what it returns
	busy  bool           // within a call
	free  bool           // nobody waits
	taken []verbs.Opcode // free: what was posted
}

func (g *gate) PostSend(wrs []verbs.SendWR) (int, error) {
	if g.busy {
		panic("two at once")
	}
	if g.free {
		g.taken = g.taken[:0]
		for i := range wrs {
			g.taken = append(g.taken, wrs[i].Op)
		}
		return len(wrs), nil
	}
	g.busy = true
	defer func() { g.busy = false }()
	var keys []uint32
	for i := range wrs {
		keys = append(keys, wrs[i].RKey)
	}
	g.posts <- keys
	return len(wrs), <-g.leave
}

// place is a connection that only counts its orderly ends.
type place struct {
	rdmacm.ID
	disconnects int
}

func (p *place) LocalAddr() netip.AddrPort  { return netip.AddrPort{} }
func (p *place) RemoteAddr() netip.AddrPort { return netip.AddrPort{} }
func (p *place) Disconnect() error          { p.disconnects++; return nil }

// binder is a role that sends when its binds are posted.
type binder struct {
	role
	exposes int
}

func (b *binder) exposed(o *op) {
	b.exposes++
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend, RKey: 100})
	o.kind = opRequest
}

func (b *binder) ended(*op) {}

type postBed struct {
	t    *testing.T
	l    *link
	gate *gate
	id   *place
	role *binder
}

func newPostBed(t *testing.T, depth int) *postBed {
	g := &gate{posts: make(chan []uint32), leave: make(chan error)}
	b := &postBed{t: t, gate: g, id: &place{}, role: &binder{}}
	h := &Host{}
	h.workers.start()
	b.l = &link{host: h, id: b.id, qp: g, role: b.role, tap: new(Tap), cancel: func() {}}
	b.l.prepareSends(depth)
	t.Cleanup(h.workers.close)
	return b
}

// send posts a request of its own under key.
func (b *postBed) send(key uint32) {
	b.l.mu.Lock()
	defer b.l.mu.releaseAndPost()
	o := b.l.sq.newOp(opNotice, 0)
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend, RKey: key})
	b.l.submit(o)
}

// want checks what the next PostSend is called with.
func (b *postBed) want(keys ...uint32) {
	b.t.Helper()
	if got := <-b.gate.posts; !slices.Equal(got, keys) {
		b.t.Fatalf("posted %v, not %v", got, keys)
	}
}

// quiet checks that nobody posts, nor will.
func (b *postBed) quiet() {
	b.t.Helper()
	synctest.Wait()
	select {
	case got := <-b.gate.posts:
		b.t.Fatalf("posted %v", got)
	default:
	}
	if b.l.sq.line.moving || len(b.l.sq.line.next) > 0 {
		b.t.Fatal("somebody posts, or should")
	}
}

// TestPostsTogether: who posts while another does so goes on at once; what came
// together goes out together, in order.
func TestPostsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		go b.send(1)
		b.want(1)
		for key := range uint32(20) {
			b.send(2 + key) // does not wait: nobody lets the first go
		}
		b.gate.leave <- nil
		b.want(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)
		b.send(30)
		b.gate.leave <- nil
		b.want(30)
		b.gate.leave <- nil
		b.quiet()
		go b.send(40)
		b.want(40)
		b.gate.leave <- nil
		b.quiet()
	})
}

// TestPostsBounded: what is in line has its slots in the send queue; the rest waits
// for completions, as it does for a queue pair that is quick.
func TestPostsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 4)
		go b.send(1)
		b.want(1)
		for key := range uint32(10) {
			b.send(2 + key)
		}
		if n := len(b.l.sq.line.next); n != 3 {
			t.Errorf("%d requests in line for 4 slots, of which one is used", n)
		}
		b.gate.leave <- nil
		b.want(2, 3, 4)
		b.gate.leave <- nil
		b.quiet()
		go func() {
			b.l.mu.Lock()
			defer b.l.mu.releaseAndPost()
			b.l.complete(&verbs.WC{})
		}()
		b.want(5, 6, 7)
		b.gate.leave <- nil
		b.quiet()
	})
}

// TestPostFails: an error ends the connection; what is in line goes nowhere.
func TestPostFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		go b.send(1)
		b.want(1)
		b.send(2)
		broken := errors.New("broken")
		b.gate.leave <- broken
		b.quiet()
		b.send(3)
		b.quiet()
		if err := b.l.reason; !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		b.l.settle()
	})
}

// TestEndAfterPosts: a connection that ends here has the queue pair to itself once
// what was posted before has gone there; nothing follows.
func TestEndAfterPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		go b.send(1)
		b.want(1)
		b.send(2)
		b.l.fail(nil)
		b.send(3)
		settled := false
		go func() {
			b.l.settle()
			settled = true
		}()
		b.gate.leave <- nil
		b.want(2)
		synctest.Wait()
		if settled {
			t.Error("the queue pair was let go while somebody posts")
		}
		b.gate.leave <- nil
		b.quiet()
		if !settled {
			t.Error("still waiting")
		}
		b.send(4)
		b.quiet()
	})
}

// TestDisconnectAfterPosts: an orderly end comes after what was posted before.
func TestDisconnectAfterPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		end := func() {
			b.l.mu.Lock()
			defer b.l.mu.releaseAndPost()
			b.l.ending = true
			b.l.pump()
		}
		go b.send(1)
		b.want(1)
		b.send(2)
		end()
		b.gate.leave <- nil
		b.want(2)
		synctest.Wait()
		if b.id.disconnects != 0 {
			t.Error("disconnected too early")
		}
		b.gate.leave <- nil
		b.quiet()
		if b.id.disconnects != 1 {
			t.Errorf("disconnected %d times", b.id.disconnects)
		}
	})
}

// TestExposesAfterBinds: the Send that tells the keys of windows is made once the
// queue pair has their binds, and nothing overtakes it.
func TestExposesAfterBinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		expose := func() {
			b.l.mu.Lock()
			defer b.l.mu.releaseAndPost()
			o := b.l.sq.newOp(opExpose, 0)
			o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpBindMW, RKey: 10}, verbs.SendWR{Op: verbs.OpBindMW, RKey: 11})
			b.l.submit(o)
		}
		go b.send(1)
		b.want(1)
		expose()
		b.send(2)
		b.gate.leave <- nil
		b.want(10, 11)
		b.send(3)
		if b.role.exposes != 0 {
			t.Error("exposed before the keys are there")
		}
		b.gate.leave <- nil
		b.want(100, 2, 3)
		b.gate.leave <- nil
		b.quiet()
	})
}

// TestPostersTakeTurns: nobody posts for others without an end.
func TestPostersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 1000)
		back := false
		go func() {
			b.send(0)
			back = true
		}()
		for key := range uint32(10 * maxMoves) {
			b.want(key)
			if done := key >= maxMoves; back != done {
				t.Fatalf("call %d of PostSend: the first poster is back: %v", key, back)
			}
			b.send(key + 1)
			b.gate.leave <- nil
			synctest.Wait()
		}
		b.want(10 * maxMoves)
		b.gate.leave <- nil
		b.quiet()
	})
}

// TestGather: a caller that lets others add their calls posts what they have added, unless
// the last of them does. One that comes late, or alone, posts its own at once.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPostBed(t, 100)
		call := func(key uint32, others bool) {
			b.l.mu.Lock()
			defer b.l.mu.releaseAndGather(others)
			o := b.l.sq.newOp(opNotice, 0)
			o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend, RKey: key})
			b.l.submit(o)
		}
		for key, others := range []bool{false, true, true} {
			b.l.now = time.Now().Add(-together * time.Duration(key/2))
			go call(uint32(key), others)
			b.want(uint32(key))
			b.gate.leave <- nil
			b.quiet()
		}
		b.l.now = time.Now()
		b.l.sq.line.moving, b.l.sq.line.paused = true, true // another has let others run
		call(5, true)
		call(6, true)
		b.send(7)
		go call(8, false)
		b.want(5, 6, 7, 8)
		b.gate.leave <- nil
		b.quiet()
		if b.l.sq.line.paused {
			t.Error("the other would post as well")
		}
	})
}

// TestPostAllocations: in steady state posting takes no memory.
func TestPostAllocations(t *testing.T) {
	b := newPostBed(t, 100)
	b.gate.free = true
	one := func() {
		b.send(1)
		b.send(2)
		b.l.mu.Lock()
		defer b.l.mu.releaseAndPost()
		if b.l.sq.signals > 0 {
			b.l.complete(&verbs.WC{Op: verbs.WCSend})
		}
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !slices.Equal(b.gate.taken, []verbs.Opcode{verbs.OpSend}) {
		t.Errorf("posted %v", b.gate.taken)
	}
}

// TestUnlockPostsNothing: Unlock is for those who only read. It panics when it would
// leave requests in line that no goroutine posts.
func TestUnlockPostsNothing(t *testing.T) {
	b := newPostBed(t, 100)
	b.gate.free = true
	b.l.mu.Lock()
	nothing := b.l.sq.given()
	b.l.mu.Unlock()
	if !nothing || len(b.gate.taken) > 0 {
		t.Errorf("posted %v", b.gate.taken)
	}
	b.l.mu.Lock()
	o := b.l.sq.newOp(opNotice, 0)
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend})
	b.l.submit(o)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the lock is released, and the Send is not posted")
			}
		}()
		b.l.mu.Unlock()
	}()
	b.l.mu.releaseAndPost()
	if len(b.gate.taken) != 1 {
		t.Errorf("posted %v", b.gate.taken)
	}
}
