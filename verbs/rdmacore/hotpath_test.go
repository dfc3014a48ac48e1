//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A work request allocates no memory, from posting to its completion, on either side, whether
// the CQ sleeps or spins.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		busy time.Duration
	}{{"sleeping", 0}, {"spinning", time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) { testNoAllocations(t, c.busy) })
	}
}

func testNoAllocations(t *testing.T, busy time.Duration) {
	p := newProvider(t, Config{Tuning: tuning.Settings{BusyPoll: busy}})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	a, b := pair.A, pair.B
	recv := []verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{{MR: b.MR, Length: 4096}}}}
	send := []verbs.SendWR{
		{ID: 2, Op: verbs.OpRDMAWrite, SGL: []verbs.SGE{{MR: a.MR, Length: 4096}}, RemoteAddr: b.MR.Addr() + 8192, RKey: b.MR.RKey()},
		{ID: 3, Op: verbs.OpRDMARead, SGL: []verbs.SGE{{MR: a.MR, Offset: 8192, Length: 4096}}, RemoteAddr: b.MR.Addr() + 8192, RKey: b.MR.RKey()},
		{ID: 4, Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: a.MR, Length: 1000}}},
	}
	var wc [4]verbs.WC
	take := func(cq verbs.CQ, id uint64) {
		for {
			must(t, cq.Wait(ctx))
			for _, w := range wc[:cq.Poll(wc[:])] {
				if w.Status != verbs.WCSuccess {
					t.Fatalf("request %d: %v", w.ID, w.Status)
				}
				if w.ID == id {
					return
				}
			}
		}
	}
	n := testing.AllocsPerRun(200, func() {
		if _, err := b.QP.PostRecv(recv); err != nil {
			t.Fatal(err)
		}
		if _, err := a.QP.PostSend(send); err != nil {
			t.Fatal(err)
		}
		take(b.RecvCQ, 1)
		take(a.SendCQ, 4)
	})
	if n > 0 {
		t.Errorf("%v allocations for four work requests", n)
	}
}

// Busy polling ends: with nothing to do, a wait sleeps in the poller, and it wakes up for
// the next completion.
func TestBusyPollSleeps(t *testing.T) {
	p := newProvider(t, Config{Tuning: tuning.Settings{BusyPoll: tuning.MaxBusyPoll}})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	if _, err := pair.B.QP.PostRecv([]verbs.RecvWR{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- pair.B.RecvCQ.Wait(ctx) }()
	for !sleepsInWait() {
		if ctx.Err() != nil {
			t.Fatal("it spins for ever")
		}
		runtime.Gosched()
	}
	if _, err := pair.A.QP.PostSend([]verbs.SendWR{{ID: 2, Op: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// sleepsInWait reports whether a goroutine within completionQueue.Wait waits for I/O.
func sleepsInWait() bool {
	buf := make([]byte, 1<<20)
	for g := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		head, _, _ := bytes.Cut(g, []byte("\n"))
		if bytes.Contains(head, []byte("[IO wait")) && bytes.Contains(g, []byte("(*completionQueue).Wait(")) {
			return true
		}
	}
	return false
}
