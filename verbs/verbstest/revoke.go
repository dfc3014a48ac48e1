package verbstest

import (
	"bytes"
	"context"

	"github.com/rdmad/rdmad/verbs"
)

// Once a region or window is closed, or its invalidation has completed, the peer cannot
// access the memory any more, however busy it is.
func testRevokeUnderFire(e *env) {
	for name, prepare := range map[string]func(e *env, p *Pair, buf []byte) (Remote, func()){
		"region closed":     exposeRegion,
		"window closed":     exposeWindow(func(p *Pair, mw verbs.MW) { Must(p.B.t, mw.Close()) }),
		"queue pair closed": exposeWindow(func(p *Pair, _ verbs.MW) { Must(p.B.t, p.B.QP.Close()) }),
		"window invalidated": exposeWindow(func(p *Pair, mw verbs.MW) {
			p.B.Post(LocalInvalidate(1, mw.RKey()))
			switch wc := p.B.Sent(); {
			case wc.ID == 1 && wc.Status == verbs.WCWRFlushErr:
				Must(p.B.t, p.B.QP.Close()) // the peer's next Write has already ended the connection
			case wc.ID != 1 || wc.Status != verbs.WCSuccess:
				p.B.t.Fatalf("invalidation completed with %+v (%v)", wc, wc.Status)
			}
		}),
	} {
		if !e.windows() && name != "region closed" || e.target.faulty("RevokeUnderFire/"+name) {
			continue
		}
		e.sub(name, func(e *env) {
			for range 10 {
				underFire(e, prepare)
			}
		})
	}
}

// exposeRegion returns a region of buf and a function that closes it.
func exposeRegion(e *env, p *Pair, buf []byte) (Remote, func()) {
	mr, err := p.B.PD.RegMR(buf, AllAccess)
	Must(e, err)
	return RemoteMR(mr), func() { Must(e, mr.Close()) }
}

// exposeWindow returns a window over buf.
func exposeWindow(revoke func(*Pair, verbs.MW)) func(*env, *Pair, []byte) (Remote, func()) {
	return func(e *env, p *Pair, buf []byte) (Remote, func()) {
		mr := p.B.Register(buf, AllAccess)
		mw := p.B.Window()
		w := p.B.bound(mw, mr, 0, len(buf), verbs.AccessRemoteWrite)
		return w, func() { revoke(p, mw) }
	}
}

func underFire(e *env, prepare func(*env, *Pair, []byte) (Remote, func())) {
	const n = 32 << 10
	p := e.pair(Options{})
	buf := make([]byte, n)
	at, revoke := prepare(e, p, buf)
	ctx := e.patience()
	first := make(chan struct{})
	fired := make(chan error, 1)
	go func() { fired <- fire(ctx, p.A, at, n, first) }()
	<-first
	revoke()
	for i := range buf {
		buf[i] = canary
	}
	Must(e, <-fired)
	p.A.Ended()
	p.B.Ended()
	if !bytes.Equal(buf, bytes.Repeat([]byte{canary}, n)) {
		e.Fatal("memory changed after it was taken back")
	}
	p.Close()
}

// fire makes Writes until the connection ends. It closes first when a Write has completed,
// or no Write can complete any more.
func fire(ctx context.Context, s *Side, at Remote, n int, first chan<- struct{}) error {
	for sent := 0; ; sent++ {
		if _, err := s.QP.PostSend([]verbs.SendWR{Write(1, at, s.SGE(0, n))}); err != nil {
			return err
		}
		wc, err := Next(ctx, s.SendCQ)
		if sent == 0 {
			close(first)
		}
		if err != nil || wc.Status != verbs.WCSuccess {
			return err
		}
	}
}
