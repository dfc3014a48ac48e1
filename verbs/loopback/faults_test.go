package loopback

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A connection carries DropAfter messages and no more; Read responses count.
func TestDropAfter(t *testing.T) {
	for _, transport := range []Transport{IWARP, InfiniBand} {
		p := New(Config{Network: FabricConfig{Transport: transport}})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		p.Fabric().SetFaults(Faults{DropAfter: 5})
		a, b := pair.A, pair.B
		for i := range uint64(4) {
			b.Receive(i, 0, 10)
		}
		for i := range uint64(3) {
			a.Post(verbstest.Send(i, a.SGE(0, 3)))
			a.Done(i, verbs.WCSend)
			b.Got(i, 3)
		}
		b.Post(verbstest.Read(9, a.Remote(0), b.SGE(0, 10)))
		b.Done(9, verbs.WCRDMARead)
		if st := a.QP.State(); st != verbs.QPRTS {
			t.Fatalf("dropped too early: %v", a.QP.Err())
		}
		a.Post(verbstest.Send(4, a.SGE(0, 3)))
		if err := errors.Join(a.Ended(), b.Ended()); !errors.Is(err, errDropped) {
			t.Errorf("ended with %v", err)
		}
		if wc := b.Received(); wc.ID != 3 || wc.Status != verbs.WCWRFlushErr {
			t.Errorf("receive: %+v", wc)
		}
	}
}

// A drop between a Read and its response leaves the Read flushed.
func TestDropReadResponse(t *testing.T) {
	p := New(Config{})
	pair := verbstest.NewPair(t, p, p, verbstest.Options{})
	p.Fabric().SetFaults(Faults{DropAfter: 1})
	pair.A.Post(verbstest.Read(1, pair.B.Remote(0), pair.A.SGE(0, 10)))
	if wc := pair.A.Sent(); wc.ID != 1 || wc.Status != verbs.WCWRFlushErr {
		t.Errorf("read: %+v (%v)", wc, wc.Status)
	}
	pair.A.Ended()
	pair.B.Ended()
}

// A request fails with the status that the hook says; those after it are
// flushed and nothing of them arrives.
func TestRequestFault(t *testing.T) {
	p := New(Config{})
	pair := verbstest.NewPair(t, p, p, verbstest.Options{})
	a, b := pair.A, pair.B
	var seen []Request
	p.Fabric().SetFaults(Faults{Request: func(r Request) verbs.WCStatus {
		seen = append(seen, r)
		if r.Op == verbs.OpRDMAWrite {
			return verbs.WCRetryExcErr
		}
		return verbs.WCSuccess
	}})
	b.Receive(1, 0, 10)
	b.Receive(2, 0, 10)
	a.Post(verbstest.Send(5, a.SGE(0, 3)), verbstest.Write(6, b.Remote(0), a.SGE(0, 3)), verbstest.Send(7, a.SGE(0, 3)))
	a.Done(5, verbs.WCSend)
	b.Got(1, 3)
	for id, status := range map[uint64]verbs.WCStatus{6: verbs.WCRetryExcErr} {
		if wc := a.Sent(); wc.ID != id || wc.Status != status {
			t.Errorf("completion %+v (%v)", wc, wc.Status)
		}
	}
	if wc := a.Sent(); wc.ID != 7 || wc.Status != verbs.WCWRFlushErr {
		t.Errorf("completion %+v (%v)", wc, wc.Status)
	}
	if wc := b.Received(); wc.ID != 2 || wc.Status != verbs.WCWRFlushErr {
		t.Errorf("receive: %+v", wc)
	}
	if err := a.Ended(); !errors.Is(err, errInjected) {
		t.Errorf("ended with %v", err)
	}
	b.Ended()
	want := Request{Local: a.ID.LocalAddr(), Remote: a.ID.RemoteAddr(), ID: 6, Op: verbs.OpRDMAWrite, Seq: 1}
	if len(seen) != 2 || seen[1] != want {
		t.Errorf("asked about %+v", seen)
	}
}

// Completions are held back in order, flushed ones too, and vanish with
// their queue pair.
func TestCompletionDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		p.Fabric().SetFaults(Faults{CompletionDelay: 2 * second})
		b.Receive(1, 0, 10)
		a.Post(verbstest.Send(2, a.SGE(0, 3)), verbstest.Write(3, b.Remote(0), a.SGE(0, 3)))
		took(t, "completions", 2*second, func() {
			a.Done(2, verbs.WCSend)
			a.Done(3, verbs.WCRDMAWrite)
			b.Got(1, 3)
		})
		b.Receive(4, 0, 10)
		a.Post(verbstest.Write(5, b.Remote(0), a.SGE(0, 3)))
		p.Fabric().SetFaults(Faults{})
		a.Post(verbstest.Write(6, b.Remote(0), a.SGE(0, 3)))
		b.QP.Fail()
		took(t, "the first flush", 0, func() { b.Received() })
		took(t, "what was held back before", 2*second, func() {
			a.Done(5, verbs.WCRDMAWrite)
			a.Done(6, verbs.WCRDMAWrite)
		})
	})
}

func TestCompletionDelayClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		pair := verbstest.NewPair(t, p, p, verbstest.Options{})
		a, b := pair.A, pair.B
		p.Fabric().SetFaults(Faults{CompletionDelay: second})
		a.Post(verbstest.Write(1, b.Remote(0), a.SGE(0, 3)))
		must(t, a.QP.Close())
		ctx, cancel := context.WithTimeout(t.Context(), 10*second)
		defer cancel()
		if err := a.SendCQ.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
	})
}
