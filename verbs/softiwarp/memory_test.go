package softiwarp

import (
	"errors"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestTags: tags are unique, never 0, found while reserved, and forgotten
// afterwards, while the table grows under look-ups.
func TestTags(t *testing.T) {
	var table stagTable
	table.init()
	pd := &protectionDomain{}
	regions := map[uint32]*region{}
	for range 5000 {
		r := &region{}
		r.init(pd)
		stag := table.reserve(r)
		if stag == 0 || regions[stag] != nil {
			t.Fatalf("tag %#x given twice, or none", stag)
		}
		if table.pin(stag) != nil {
			t.Fatal("region pinned before it was enabled")
		}
		r.enable(stag)
		regions[stag] = r
	}
	for stag, r := range regions {
		if got := table.pin(stag); got != r {
			t.Fatalf("tag %#x: found %p, not %p", stag, got, r)
		}
		r.unpin()
		// Tags that fall into the same slot are not it.
		if table.pin(stag^1<<31) != nil && regions[stag^1<<31] == nil {
			t.Fatal("a foreign tag was accepted")
		}
	}
	if n := len(table.slots.Load().regions); n != 16384 {
		t.Errorf("%d slots for 5000 tags", n)
	}
	for stag, r := range regions {
		r.revoke()
		table.release(stag)
		if table.pin(stag) != nil {
			t.Fatalf("tag %#x still found", stag)
		}
	}
	if table.used != 0 {
		t.Errorf("%d tags left", table.used)
	}
}

// TestRevokeWaits: revoking returns when the last pin has ended, and no pin succeeds after
// revoking has started.
func TestRevokeWaits(t *testing.T) {
	r := &region{}
	r.init(&protectionDomain{})
	for stag := uint32(1); stag < 200; stag++ {
		r.enable(stag)
		for range 2 {
			if !r.pin(stag) {
				t.Fatal("not pinned")
			}
		}
		revoked := make(chan struct{})
		go func() {
			r.revoke()
			close(revoked)
		}()
		for r.pin(stag) { // until the revoke has begun
			r.unpin()
		}
		r.unpin()
		select {
		case <-revoked:
			t.Fatal("revoked under a pin")
		default:
		}
		r.unpin()
		<-revoked
	}
}

// TestPinRace pins from several goroutines while the region comes and goes:
// memory behind a pin must not change hands.
func TestPinRace(t *testing.T) {
	var table stagTable
	table.init()
	r := &region{}
	r.init(&protectionDomain{})
	var mu sync.RWMutex
	var stag uint32
	owner := 0 // written while revoked, read while pinned
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				tag := stag
				mu.RUnlock()
				if got := table.pin(tag); got != nil {
					_ = owner
					got.unpin()
				}
			}
		})
	}
	for range 2000 {
		tag := table.reserve(r)
		owner++
		r.enable(tag)
		mu.Lock()
		stag = tag
		mu.Unlock()
		r.revoke()
		table.release(tag)
	}
	close(stop)
	wg.Wait()
}

// TestRegionBusy: a region can't be closed under posted requests and can
// once they have completed.
func TestRegionBusy(t *testing.T) {
	a, b := connectPair(t, Config{}, Config{})
	mr := must(b.pd.RegMR(make([]byte, 64), allAccess))(t)
	b.recv(verbs.RecvWR{SGL: []verbs.SGE{{MR: mr, Length: 8}, {MR: mr, Offset: 8, Length: 8}}})
	if err := mr.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close under a Receive: %v", err)
	}
	a.send(verbs.SendWR{})
	b.succeed(1)
	if err := mr.Close(); err != nil {
		t.Errorf("close afterwards: %v", err)
	}
	if n, err := b.qp.PostRecv([]verbs.RecvWR{{}, {SGL: sge(mr, 0, 8)}}); n != 1 || !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("post of a closed region: took %d, %v", n, err)
	}
}

// TestRefusedPostCountsNothing: a request refused at its second entry leaves
// the region of the first free.
func TestRefusedPostCountsNothing(t *testing.T) {
	a, _ := connectPair(t, Config{}, Config{})
	mr := must(a.pd.RegMR(make([]byte, 64), allAccess))(t)
	for _, wr := range []verbs.SendWR{
		{SGL: []verbs.SGE{{MR: mr, Length: 8}, {MR: mr, Length: 65}}},
		{SGL: sge(mr, 0, 8), Flags: 1 << 7},
		{Op: verbs.OpRDMARead},
		{Op: verbs.OpRDMARead, SGL: []verbs.SGE{{MR: mr}, {MR: mr}}},
		{Op: verbs.OpBindMW, Bind: verbs.BindInfo{MR: mr, Length: 1, Access: verbs.AccessRemoteRead}},
	} {
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", wr, err)
		}
	}
	if err := mr.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestMessageTooLong: more bytes in all than a message can have, from a
// region that is much smaller.
func TestMessageTooLong(t *testing.T) {
	p := newProvider(t, Config{})
	s := newSide(t, p, must(p.Resolve(t.Context(), "127.0.0.1:1"))(t), verbs.QPAttr{MaxSendWR: 1, MaxRecvWR: 1, MaxRecvSGE: maxSGE})
	mr := s.region(make([]byte, maxMsgSize/16), verbs.AccessLocalWrite)
	wr := verbs.RecvWR{}
	for range 17 {
		wr.SGL = append(wr.SGL, verbs.SGE{MR: mr, Length: maxMsgSize / 16})
	}
	if _, err := s.qp.PostRecv([]verbs.RecvWR{wr}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("17/16 of the longest message: %v", err)
	}
	wr.SGL = wr.SGL[:16]
	s.recv(wr)
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{
		{MPARevision: 3}, {MaxULPDU: 81}, {MaxULPDU: 65536}, {HandshakeTimeout: -1},
		{DrainTimeout: -1}, {MaxHandshakes: -1}, {Backlog: -1},
	} {
		if _, err := New(c); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestNoSTag: STag 0 names no memory, also not that of a region that is being revoked.
func TestNoSTag(t *testing.T) {
	var r region
	r.init(nil)
	r.enable(64)
	if !r.pin(64) {
		t.Fatal("not enabled")
	}
	r.unpin()
	r.stag.Store(0) // what revoke does first
	if r.pin(0) {
		t.Error("STag 0 is taken")
	}
}
