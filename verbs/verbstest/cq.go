package verbstest

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Wait ends with its context, when the CQ is closed, and as soon as there is
// a completion.
func testCQWait(e *env) {
	p := e.pair(Options{})
	ctx, cancel := context.WithTimeout(e.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.B.RecvCQ.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.Fatalf("wait: %v", err)
	}
	for i := range uint64(100) {
		p.B.Receive(i, 0, 8)
		woken := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(e.Context(), Patience)
			defer cancel()
			woken <- p.B.RecvCQ.Wait(ctx)
		}()
		p.A.Post(Send(i, p.A.SGE(0, 8)))
		Must(e, <-woken)
		var wc [4]verbs.WC
		if n := p.B.RecvCQ.Poll(wc[:]); n != 1 || wc[0].ID != i {
			e.Fatalf("polled %d: %+v", n, wc[0])
		}
		p.A.Done(i, verbs.WCSend)
	}
}

// A CQ notifies once for each request, for a later completion. If there is a completion
// already, it reports that at once. A wait drops the request.
func testCQNotify(e *env) {
	p := e.pair(Options{})
	cq, ok := p.B.RecvCQ.(verbs.Notifier)
	if !ok {
		e.Fatal("the queue does not notify")
	}
	notified := make(chan struct{}, 1)
	request := func() bool { return cq.ReqNotify(func() { notified <- struct{}{} }) }
	ctx := e.patience()
	ended, end := context.WithCancel(e.Context())
	end()
	for i := range uint64(200) {
		p.B.Receive(2*i, 0, 8)
		p.B.Receive(2*i+1, 8, 8)
		cq.Shrink()
		if !request() {
			e.Fatal("a completion before there is one")
		}
		if i%2 == 1 {
			if err := p.B.RecvCQ.Wait(ended); !errors.Is(err, context.Canceled) {
				e.Fatalf("wait: %v", err)
			}
			notified <- struct{}{}
		}
		p.A.Post(Send(i, p.A.SGE(0, 8)), Send(i, p.A.SGE(0, 8)))
		select {
		case <-notified:
		case <-ctx.Done():
			e.Fatal("no notification")
		}
		for at := range uint64(2) {
			wc, err := Next(ctx, p.B.RecvCQ)
			Must(e, err)
			if wc.ID != 2*i+at {
				e.Fatalf("completion %+v, want %d", wc, 2*i+at)
			}
			if at == 0 {
				Must(e, p.B.RecvCQ.Wait(ctx)) // the second is there
				if request() {
					e.Fatal("a completion that is there is not reported")
				}
			}
		}
		p.A.Done(i, verbs.WCSend)
		p.A.Done(i, verbs.WCSend)
		if len(notified) > 0 {
			e.Fatal("notified twice")
		}
	}
}

// Close wakes the waiting goroutine.
func testCQClose(e *env) {
	ctx := e.patience()
	for i := range 100 {
		cq, err := e.passive.Device().CreateCQ(4)
		Must(e, err)
		got := make(chan error)
		go func() { got <- cq.Wait(ctx) }()
		for range i { // the waiting goroutine gets further each time
			runtime.Gosched()
		}
		Must(e, cq.Close())
		if err := <-got; !errors.Is(err, verbs.ErrClosed) {
			e.Fatalf("wait on a closed CQ: %v", err)
		}
	}
}

// Poll returns the completions that exist and fit, oldest first. Wait does not wait while
// there are any.
func testCQBatch(e *env) {
	p := e.pair(Options{OneCQ: true})
	const count = 40
	for i := range uint64(count) {
		p.A.Post(Write(i, p.B.Remote(0), p.A.SGE(0, 8)))
	}
	ctx := e.patience()
	next := uint64(0)
	for size := 1; next < count; size = size%7 + 1 {
		Must(e, p.A.SendCQ.Wait(ctx))
		wc := make([]verbs.WC, size)
		n := p.A.SendCQ.Poll(wc)
		if n < 1 || n > size {
			e.Fatalf("polled %d of %d", n, size)
		}
		for _, c := range wc[:n] {
			p.A.success(c, next, verbs.WCRDMAWrite)
			next++
		}
	}
	if n := p.A.SendCQ.Poll(make([]verbs.WC, 4)); n != 0 {
		e.Fatalf("%d completions too many", n)
	}
}

// Completions of queue pairs that share a CQ can be told apart. When one is closed, only
// its completions vanish.
func testSharedCQ(e *env) {
	cq, err := e.passive.Device().CreateCQ(64)
	Must(e, err)
	o := Options{PassiveCQ: cq}
	pairs := []*Pair{e.pair(o), e.pair(o), e.pair(o)}
	for round := range uint64(8) {
		for _, p := range pairs {
			p.B.Post(Write(round, p.A.Remote(0), p.B.SGE(0, 8)))
		}
	}
	Must(e, pairs[1].B.QP.Close())
	ctx := e.patience()
	next := map[uint32]uint64{}
	for range 2 * 8 {
		wc, err := Next(ctx, cq)
		Must(e, err)
		if wc.Status != verbs.WCSuccess || wc.ID != next[wc.QPNum] {
			e.Fatalf("completion %+v, not the success of %d", wc, next[wc.QPNum])
		}
		next[wc.QPNum]++
	}
	if next[pairs[0].B.QP.Num()] != 8 || next[pairs[2].B.QP.Num()] != 8 {
		e.Errorf("completions by queue pair, %d being closed: %v", pairs[1].B.QP.Num(), next)
	}
	if n := cq.Poll(make([]verbs.WC, 1)); n != 0 {
		e.Error("a completion of the closed queue pair")
	}
	for _, p := range pairs {
		p.Close()
	}
	Must(e, cq.Close())
}

// A CQ that overflows ends its connections and loses completions. Other connections are not
// affected.
func testCQOverflow(e *env) {
	witness := e.pair(Options{})
	p := e.pair(Options{CQDepth: 4, SendWR: 16, RecvWR: 1})
	// A provider may make the CQ deeper than it was asked to.
	for range 4096 {
		wrs := make([]verbs.SendWR, 16)
		for i := range wrs {
			wrs[i] = Write(uint64(i), p.B.Remote(0), p.A.SGE(0, 8))
		}
		if _, err := p.A.QP.PostSend(wrs); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
			e.Fatalf("post: %v", err)
		}
		if p.A.QP.State() == verbs.QPErr {
			break
		}
	}
	p.A.Ended()
	p.B.Ended()
	witness.Exchange(1)
}
