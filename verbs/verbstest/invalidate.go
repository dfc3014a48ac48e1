package verbstest

import (
	"github.com/rdmad/rdmad/verbs"
)

// Send With Invalidate revokes the window before its Receive completes, and the completion
// reports it. The window can be bound again.
func testSendInvalidate(e *env) {
	p := e.pair(Options{})
	mw := p.B.Window()
	for i := range uint64(50) {
		w := p.B.bound(mw, p.B.MR, 8192, 1000, verbs.AccessRemoteWrite)
		Fill(p.A.Bytes(0, 1000), i)
		p.B.Receive(i, 0, 100)
		p.A.Post(Unsignaled(Write(0, w, p.A.SGE(0, 1000))), SendInvalidate(i, w.RKey, p.A.SGE(0, 10)))
		wc := p.B.Got(i, 10)
		if !wc.WithInvalidate || wc.Invalidated != w.RKey {
			e.Fatalf("receive completed with %+v; key %#x was to be invalidated", wc, w.RKey)
		}
		sameBytes(e, "written", p.B.Bytes(8192, 1000), p.A.Bytes(0, 1000))
		p.A.Done(i, verbs.WCSend)
	}
	p.B.Receive(1, 0, 100)
	p.A.Post(Send(1, p.A.SGE(0, 10)))
	if wc := p.B.Got(1, 10); wc.WithInvalidate {
		e.Errorf("plain Send invalidated something: %+v", wc)
	}
	p.A.Done(1, verbs.WCSend)
	p.Exchange(1)
}

// After the invalidation the peer cannot access the memory any more.
func testRevokedByPeer(e *env) {
	p := e.pair(Options{})
	v := newVictim(p, AllAccess)
	w := p.B.bound(p.B.Window(), v.mr, 0, 64, verbs.AccessRemoteWrite)
	p.B.Receive(1, 0, 100)
	p.A.Post(SendInvalidate(1, w.RKey), Write(2, w, p.A.SGE(0, 64)))
	p.B.Got(1, 0)
	e.bothEnd(p)
	v.untouched()
}

// A peer is disconnected if it invalidates a key that it may not invalidate.
func testBadSendInvalidate(e *env) {
	for name, key := range map[string]func(e *env, p *Pair) uint32{
		"unknown key":     func(_ *env, p *Pair) uint32 { return ^p.B.MR.RKey() },
		"key of a region": func(_ *env, p *Pair) uint32 { return p.B.MR.RKey() },
		"invalidated before": func(_ *env, p *Pair) uint32 {
			r := p.B.bound(p.B.Window(), p.B.MR, 0, 8, verbs.AccessRemoteRead)
			p.B.revoke(r.RKey)
			return r.RKey
		},
		"window of another connection": func(e *env, p *Pair) uint32 {
			other := e.pair(Options{PassivePD: p.B.PD})
			mw := p.B.Window()
			return other.B.bound(mw, p.B.MR, 0, 8, verbs.AccessRemoteRead).RKey
		},
	} {
		if e.target.faulty("BadSendInvalidate/" + name) {
			continue
		}
		e.sub(name, func(e *env) {
			p := e.pair(Options{})
			k := key(e, p)
			p.B.Receive(1, 0, 100)
			p.A.Post(SendInvalidate(1, k, p.A.SGE(0, 10)))
			e.bothEnd(p)
			wc := p.B.Received()
			if wc.ID != 1 || wc.Status == verbs.WCSuccess {
				e.Errorf("receive completed with %+v", wc)
			}
		})
	}
}
