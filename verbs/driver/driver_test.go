package driver

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// testQP is a queue pair that can only fail.
type testQP struct{ QP }

func (q *testQP) fail(cause error) {
	q.Lock()
	defer q.Unlock()
	q.FailLocked(cause)
}

func (q *testQP) Overflow()                              { q.fail(ErrOverflow) }
func (q *testQP) End(cause error)                        { q.fail(cause) }
func (q *testQP) Fail()                                  { q.fail(ErrFailed) }
func (*testQP) Disconnect() error                        { return nil }
func (*testQP) PostSend([]verbs.SendWR) (n int, _ error) { return 0, nil }
func (*testQP) PostRecv([]verbs.RecvWR) (n int, _ error) { return 0, nil }
func (q *testQP) Close() error                           { q.Free(); return nil }

// testObjects are the objects of one device: several queue pairs on one completion queue.
func testObjects(t *testing.T, depth, queuePairs int) (d *Device, cq *CQ, qps []*testQP) {
	d = &Device{Attrs: verbs.DeviceAttr{Name: "test0", MaxCQE: 64, MaxQPWR: 8, MaxSGE: 2}}
	pd := &PD{}
	verbstest.Must(t, d.CreatePD(pd))
	c, err := d.CreateCQ(depth)
	verbstest.Must(t, err)
	for range queuePairs {
		q := &testQP{}
		verbstest.Must(t, pd.CreateQP(&q.QP, q, verbs.QPAttr{SendCQ: c, RecvCQ: c}))
		qps = append(qps, q)
	}
	return d, c.(*CQ), qps
}

// A completion queue that overflows fails every queue pair that completes there, not
// only the one whose completion was lost.
func TestOverflowFailsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cq, qps := testObjects(t, 2, 3)
		for range 2 {
			cq.Push(&verbs.WC{QPNum: qps[0].Num()})
		}
		synctest.Wait()
		for i, q := range qps {
			if q.State() == verbs.QPErr {
				t.Fatalf("queue pair %d failed before the overflow", i)
			}
		}
		cq.Push(&verbs.WC{QPNum: qps[0].Num()})
		synctest.Wait()
		for i, q := range qps {
			if err := q.Err(); !errors.Is(err, ErrOverflow) {
				t.Errorf("queue pair %d: %v", i, err)
			}
		}
		if n := cq.Poll(make([]verbs.WC, 4)); n != 2 {
			t.Errorf("%d completions of 2", n)
		}
	})
}

// A queue pair that joins a completion queue after an overflow is failed by the next one,
// even if nothing was polled in between.
func TestOverflowFailsLater(t *testing.T) {
	for name, closeFirst := range map[string]bool{"the queue stays full": false, "the queue is emptied": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, cq, qps := testObjects(t, 2, 1)
				overflow := func(q *testQP) {
					for range cq.Depth + 1 {
						cq.Push(&verbs.WC{QPNum: q.Num()})
					}
					synctest.Wait()
					if err := q.Err(); !errors.Is(err, ErrOverflow) {
						t.Errorf("queue pair %d: %v", q.Num(), err)
					}
				}
				overflow(qps[0])
				if closeFirst {
					_ = qps[0].Close()
				}
				later := &testQP{}
				verbstest.Must(t, qps[0].pd.CreateQP(&later.QP, later, verbs.QPAttr{SendCQ: cq, RecvCQ: cq}))
				overflow(later)
			})
		})
	}
}

// Completions stay in order while the ring grows and wraps. The completions of a queue pair
// are dropped with it.
func TestRingOrder(t *testing.T) {
	_, cq, qps := testObjects(t, 50, 2)
	next, pushed := uint64(0), uint64(0)
	wc := make([]verbs.WC, 7)
	for range 100 {
		for range 11 {
			if cq.Queue.Len() < 50 {
				cq.Push(&verbs.WC{ID: pushed, QPNum: qps[0].Num()})
				pushed++
			}
		}
		for _, c := range wc[:cq.Poll(wc)] {
			if c.ID != next {
				t.Fatalf("completion %d, want %d", c.ID, next)
			}
			next++
		}
	}
	for cq.Poll(wc) > 0 {
	}
	for i := range uint64(40) {
		cq.Push(&verbs.WC{ID: i, QPNum: qps[i%2].Num()})
	}
	verbstest.Must(t, qps[0].Close())
	left := make([]verbs.WC, 50)
	left = left[:cq.Poll(left)]
	if len(left) != 20 {
		t.Fatalf("%d completions of 20 left", len(left))
	}
	for i, c := range left {
		if c.ID != uint64(2*i+1) {
			t.Errorf("completion %d at %d", c.ID, i)
		}
	}
}

// An object in use can't be closed, and closing it twice has no further effect.
func TestCloseOrder(t *testing.T) {
	d, cq, qps := testObjects(t, 2, 1)
	pd := qps[0].pd
	busy := []interface{ Close() error }{d, pd, cq}
	for _, o := range busy {
		if err := o.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("close of a %T in use: %v", o, err)
		}
	}
	for _, o := range []interface{ Close() error }{qps[0], cq, pd, d} {
		if err := o.Close(); err != nil {
			t.Errorf("close of a %T: %v", o, err)
		}
	}
	for _, o := range busy {
		if err := o.Close(); err != nil {
			t.Errorf("second close of a %T: %v", o, err)
		}
	}
	if n := d.Live(); n != (verbs.Live{}) {
		t.Errorf("left: %+v", n)
	}
}

// A bind is refused for the first of several reasons, on each provider the same.
func TestCheckBind(t *testing.T) {
	const read, write = verbs.AccessRemoteRead, verbs.AccessRemoteWrite
	pd, other := &PD{}, &PD{}
	w, m, foreign := &MW{pd: pd}, &MR{pd: pd, Buf: make([]byte, 8), Access: read}, &MR{pd: other}
	for _, c := range []struct {
		pd     *PD
		m      *MR
		n      int
		access verbs.Access
		want   error
	}{
		{pd, m, 8, read, nil},
		{pd, m, 8, write, ErrBindAccess},
		{pd, m, 8, read | write, ErrBindAccess},
		{pd, m, 8, verbs.AccessLocalWrite, ErrBindAccess},
		{pd, m, 8, 0, ErrBindAccess},
		{pd, m, 9, write, ErrBindBounds},
		{pd, foreign, 9, write, ErrForeignMR},
		{other, foreign, 9, write, ErrForeignMW},
	} {
		if err := w.CheckBind(c.pd, c.m, &verbs.BindInfo{Length: c.n, Access: c.access}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestReopen: a region that the device did not deregister can be used and closed again, also if a
// use of it was refused meanwhile.
func TestReopen(t *testing.T) {
	var m MR
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if m.Use() {
				m.Unuse()
			}
		}
	}()
	for range 300_000 {
		if first, _ := m.Shut(); first {
			m.Reopen()
		}
	}
	close(stop)
	<-stopped
	if first, err := m.Shut(); !first {
		t.Errorf("the region is not open: %v", err)
	}
}

// A call of an identifier happens once, its Close ends the call, and a queue pair that never
// gets a connection fails.
func TestIDCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, qps := testObjects(t, 2, 2)
		var id ID[*testQP]
		id.Init(netip.AddrPort{}, netip.AddrPort{})
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if err := id.Call(t.Context(), IDResolved, IDConnected, wait); !errors.Is(err, verbs.ErrInvalid) {
			t.Fatalf("connect without a queue pair: %v", err)
		}
		add := func(q *testQP) error {
			_, err := id.AddQP(func() (*testQP, error) { return q, nil })
			return err
		}
		verbstest.Must(t, add(qps[0]))
		if err := add(qps[1]); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("a second queue pair: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- id.Call(t.Context(), IDResolved, IDConnected, wait) }()
		synctest.Wait()
		if err := id.Call(t.Context(), IDResolved, IDConnected, wait); !errors.Is(err, verbs.ErrQPState) {
			t.Errorf("a second call: %v", err)
		}
		if was := id.Shut(); was != IDConnecting {
			t.Errorf("closed in state %d", was)
		}
		if err := <-done; !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("call ended by Close: %v", err)
		}
		if err := qps[0].Err(); !errors.Is(err, ErrNoConnection) {
			t.Errorf("queue pair: %v", err)
		}
		if was := id.Shut(); was != IDClosed {
			t.Errorf("closed twice, in state %d", was)
		}
	})
}
