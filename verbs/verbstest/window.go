package verbstest

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
)

// bound binds a window to n bytes at off of mr, on s's queue pair, and waits
// for it.
func (s *Side) bound(mw verbs.MW, mr verbs.MR, off, n int, access verbs.Access) Remote {
	s.t.Helper()
	const id = 1 << 50
	s.Post(Bind(id, verbs.BindInfo{MW: mw, MR: mr, Offset: off, Length: n, Access: access}))
	s.Done(id, verbs.WCBindMW)
	return RemoteMW(mw)
}

// revoke invalidates a window under a key, on s's queue pair, and waits for it.
func (s *Side) revoke(key uint32) {
	s.t.Helper()
	const id = 1 << 52
	s.Post(LocalInvalidate(id, key))
	s.Done(id, verbs.WCLocalInv)
}

// behind is an attack through a window over bytes 1024 to 2047 of the victim.
func behind(off, n int) func(*env, *victim, verbs.Opcode) (Remote, int) {
	return func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		return v.p.B.bound(v.p.B.Window(), v.mr, 1024, 1024, needed).At(off), n
	}
}

var windowAttacks = []attack{
	{"one byte beyond the window", behind(1024-63, 64)},
	{"one byte before the window", behind(-1, 64)},
	{"longer than the window", behind(0, 1025)},
	{"window with only the other right", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		_, other := right(op)
		return v.p.B.bound(v.p.B.Window(), v.mr, 0, 64, other), 64
	}},
	{"window that was invalidated", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		r := v.p.B.bound(v.p.B.Window(), v.mr, 0, 64, needed)
		v.p.B.revoke(r.RKey)
		return r, 64
	}},
	{"key before the last bind", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		mw := v.p.B.Window()
		r := v.p.B.bound(mw, v.mr, 0, 64, needed)
		v.p.B.revoke(r.RKey)
		v.p.B.bound(mw, v.mr, 0, 64, needed)
		return r, 64
	}},
	{"window that was closed", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		mw, err := v.p.B.PD.AllocMW()
		Must(v.p.B.t, err)
		r := v.p.B.bound(mw, v.mr, 0, 64, needed)
		Must(v.p.B.t, mw.Close())
		return r, 64
	}},
	{"region of which a window is bound", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		mr := v.p.B.Register(v.buf, verbs.AccessLocalWrite|verbs.AccessMWBind)
		v.p.B.bound(v.p.B.Window(), mr, 0, 64, needed)
		return RemoteMR(mr), 64
	}},
	{"window of another connection", func(e *env, v *victim, op verbs.Opcode) (Remote, int) {
		needed, _ := right(op)
		other := e.pair(Options{PassivePD: v.p.B.PD})
		mw := v.p.B.Window() // closed before the first connection's region, to which it is bound
		return other.B.bound(mw, v.mr, 0, 64, needed), 64
	}},
}

// A window shows what it was bound to, with each right and each size, whether or
// not its region is open to peers by itself.
func testWindow(e *env) {
	for _, access := range []verbs.Access{AllAccess, verbs.AccessLocalWrite | verbs.AccessMWBind} {
		testWindowOf(e, e.pair(Options{Access: access}))
	}
}

func testWindowOf(e *env, p *Pair) {
	sink := p.A.Register(make([]byte, 200), e.attr.SinkAccess())
	mw := p.B.Window()
	if mw.RKey() != 0 {
		e.Errorf("key of a window that was never bound: %#x", mw.RKey())
	}
	for i, access := range []verbs.Access{
		verbs.AccessRemoteWrite, verbs.AccessRemoteRead, verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
	} {
		off, n := 1000*(i+1)+i, 100+i
		w := p.B.bound(mw, p.B.MR, off, n, access)
		if w.Addr != p.B.MR.Addr()+uint64(off) {
			e.Errorf("window at %#x over offset %d of a region at %#x", w.Addr, off, p.B.MR.Addr())
		}
		Fill(p.A.Bytes(0, n), uint64(i))
		Fill(p.B.Bytes(off, n), uint64(i+10))
		if access&verbs.AccessRemoteWrite != 0 {
			p.A.Post(Write(1, w, p.A.SGE(0, n)))
			p.A.Done(1, verbs.WCRDMAWrite)
			p.A.tell(p.B)
			sameBytes(e, "written", p.B.Bytes(off, n), p.A.Bytes(0, n))
		}
		if access&verbs.AccessRemoteRead != 0 {
			p.A.Post(Read(2, w, verbs.SGE{MR: sink, Length: n}))
			p.A.Done(2, verbs.WCRDMARead)
			sameBytes(e, "read", sink.Bytes()[:n], p.B.Bytes(off, n))
		}
		p.B.revoke(w.RKey)
	}
	p.A.tell(p.B)
}

// tell makes sure that everything s posted before has arrived.
func (s *Side) tell(to *Side) {
	s.t.Helper()
	const id = 1 << 51
	to.Receive(id, 0, 0)
	s.Post(Send(id))
	s.Done(id, verbs.WCSend)
	to.Got(id, 0)
}

// Each bind gives a new key, known once it is posted; a bind and its
// invalidation work in one batch with the Sends that tell of them.
func testBindKeys(e *env) {
	p := e.pair(Options{})
	mw := p.B.Window()
	seen := map[uint32]bool{0: true, p.B.MR.RKey(): true}
	for i := range uint64(100) {
		p.B.Post(Bind(i, verbs.BindInfo{MW: mw, MR: p.B.MR, Offset: int(i), Length: 8, Access: verbs.AccessRemoteRead}))
		key := mw.RKey()
		if seen[key] {
			e.Fatalf("key %#x was given before", key)
		}
		seen[key] = true
		p.B.Post(LocalInvalidate(i, key))
		p.B.Done(i, verbs.WCBindMW)
		p.B.Done(i, verbs.WCLocalInv)
	}
}

// A bind that can't be right is refused at once or completes with an error.
func testBadBinds(e *env) {
	const size = 4096
	readOnly := func(s *Side) verbs.MR { return s.Register(make([]byte, size), verbs.AccessRemoteRead) }
	bindOnly := func(s *Side) verbs.MR { return s.Register(make([]byte, size), verbs.AccessMWBind) }
	all := func(s *Side) verbs.MR { return s.Register(make([]byte, size), AllAccess) }
	for _, c := range []struct {
		name   string
		mr     func(*Side) verbs.MR
		off, n int
		access verbs.Access
	}{
		{"beyond the region", all, size - 10, 11, verbs.AccessRemoteRead},
		{"before the region", all, -1, 10, verbs.AccessRemoteRead},
		{"write to a region without local write", bindOnly, 0, 10, verbs.AccessRemoteWrite},
		{"right that the region lacks", readOnly, 0, 10, verbs.AccessRemoteWrite},
		{"region of another PD", foreignMR, 0, 10, verbs.AccessRemoteRead},
		{"closed region", closedMR, 0, 10, verbs.AccessRemoteRead},
	} {
		e.sub(c.name, func(e *env) {
			p := e.pair(Options{})
			b := verbs.BindInfo{MW: p.B.Window(), MR: c.mr(p.B), Offset: c.off, Length: c.n, Access: c.access}
			if _, err := p.B.QP.PostSend([]verbs.SendWR{Bind(1, b)}); err != nil {
				if !errors.Is(err, verbs.ErrInvalid) {
					e.Fatalf("refused with %v", err)
				}
				p.Exchange(1)
				return
			}
			if wc := p.B.Sent(); wc.ID != 1 || wc.Status == verbs.WCSuccess {
				e.Fatalf("completed with %+v", wc)
			}
			p.B.Ended()
			p.A.Ended()
		})
	}
}

// A window that is bound can't be bound elsewhere and stay valid under its
// old key: either the bind fails or the old key is dead.
func testRebind(e *env) {
	p := e.pair(Options{})
	v := newVictim(p, AllAccess)
	mw := p.B.Window()
	old := p.B.bound(mw, v.mr, 0, 64, verbs.AccessRemoteWrite)
	p.B.Post(Bind(1, verbs.BindInfo{MW: mw, MR: v.mr, Offset: 64, Length: 64, Access: verbs.AccessRemoteWrite}))
	if wc := p.B.Sent(); wc.ID != 1 {
		e.Fatalf("completed with %+v", wc)
	}
	p.A.Post(Write(2, old, p.A.SGE(0, 64)))
	p.A.Ended()
	p.B.Ended()
	v.untouched()
}

// A window that is bound on one queue pair can't be bound on another before it is revoked.
// Then it can, and only the peer of the other queue pair reaches it.
func testBindElsewhere(e *env) {
	p := e.pair(Options{})
	v := newVictim(p, AllAccess)
	mw := p.B.Window() // closed before the region
	old := p.B.bound(mw, v.mr, 0, 64, verbs.AccessRemoteWrite)
	bind := Bind(1, verbs.BindInfo{MW: mw, MR: v.mr, Offset: 64, Length: 64, Access: verbs.AccessRemoteWrite})
	other := e.pair(Options{PassivePD: p.B.PD})
	if _, err := other.B.QP.PostSend([]verbs.SendWR{bind}); err == nil {
		if wc := other.B.Sent(); wc.ID != 1 || wc.Status == verbs.WCSuccess {
			e.Fatalf("bound on two queue pairs: %+v", wc)
		}
	} else if !errors.Is(err, verbs.ErrInvalid) {
		e.Fatalf("refused with %v", err)
	}
	p.A.Post(Write(2, old, p.A.SGE(0, 64)))
	p.A.Done(2, verbs.WCRDMAWrite)
	p.B.revoke(old.RKey)
	third := e.pair(Options{PassivePD: p.B.PD})
	r := third.B.bound(mw, v.mr, 64, 64, verbs.AccessRemoteWrite)
	Fill(third.A.Bytes(0, 64), 1)
	third.A.Post(Write(4, r, third.A.SGE(0, 64)))
	third.A.Done(4, verbs.WCRDMAWrite)
	third.A.tell(third.B)
	Fill(p.A.Bytes(0, 64), 2)
	p.A.Post(Write(5, r, p.A.SGE(0, 64)))
	e.bothEnd(p)
	sameBytes(e, "written through the window", v.mr.Bytes()[64:128], third.A.Bytes(0, 64))
}

// Invalidating what is not a bound window of the queue pair fails.
func testBadLocalInvalidate(e *env) {
	for name, key := range map[string]func(*Pair) uint32{
		"unknown key": func(p *Pair) uint32 { return ^p.B.MR.RKey() },
		"twice": func(p *Pair) uint32 {
			r := p.B.bound(p.B.Window(), p.B.MR, 0, 8, verbs.AccessRemoteRead)
			p.B.revoke(r.RKey)
			return r.RKey
		},
	} {
		p := e.pair(Options{})
		p.B.Post(LocalInvalidate(1, key(p)), Send(2, p.B.SGE(0, 1)))
		if wc := p.B.Sent(); wc.ID != 1 || wc.Status == verbs.WCSuccess {
			e.Errorf("%s: %+v", name, wc)
		}
		p.B.Ended()
		p.A.Ended()
		exactlyOnce(e, p.B, []uint64{2}, nil)
	}
}

// A region can't be closed under a window, and can after the window was
// invalidated, closed, or its queue pair destroyed.
func testWindowKeepsRegion(e *env) {
	for name, free := range map[string]func(p *Pair, mw verbs.MW) error{
		"invalidated": func(p *Pair, mw verbs.MW) error {
			p.B.revoke(mw.RKey())
			return nil
		},
		"window closed":     func(_ *Pair, mw verbs.MW) error { return mw.Close() },
		"queue pair closed": func(p *Pair, _ verbs.MW) error { return p.B.QP.Close() },
	} {
		p := e.pair(Options{})
		mr, err := p.B.PD.RegMR(make([]byte, 64), AllAccess)
		Must(e, err)
		mw, err := p.B.PD.AllocMW()
		Must(e, err)
		p.B.bound(mw, mr, 0, 64, verbs.AccessRemoteRead)
		if err := mr.Close(); !errors.Is(err, verbs.ErrBusy) {
			e.Fatalf("%s: close of a region with a window: %v", name, err)
		}
		Must(e, free(p, mw))
		if err := mr.Close(); err != nil {
			e.Fatalf("%s: close of the region: %v", name, err)
		}
		if name != "window closed" {
			Must(e, mw.Close())
		}
	}
}

// A window survives its queue pair and can be bound again on another.
func testWindowOutlivesQP(e *env) {
	first := e.pair(Options{})
	second := e.pair(Options{PassivePD: first.B.PD})
	mr := first.B.Register(filled(64, 9), AllAccess)
	mw := first.B.Window()
	first.B.bound(mw, mr, 0, 64, verbs.AccessRemoteRead)
	Must(e, first.B.QP.Close())
	w := second.B.bound(mw, mr, 0, 64, verbs.AccessRemoteRead)
	second.A.Post(Read(1, w, second.A.SGE(0, 64)))
	second.A.Done(1, verbs.WCRDMARead)
	sameBytes(e, "read", second.A.Bytes(0, 64), mr.Bytes())
}
