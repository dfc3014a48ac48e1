package loopback

import (
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Requests that name a region closed after they were posted fail with
// WCLocProtErr and move nothing.
func TestRegionClosedUnderRequest(t *testing.T) {
	type ends struct {
		*verbstest.Pair
		mr verbs.MR // of A, to be closed
	}
	for name, c := range map[string]struct {
		post func(e ends)
		next func(e ends) verbs.WC
	}{
		"Read sink": {
			func(e ends) { e.A.Post(verbstest.Read(1, e.B.Remote(0), verbs.SGE{MR: e.mr, Length: 8})) },
			func(e ends) verbs.WC { return e.A.Sent() },
		},
		"Receive": {
			func(e ends) {
				e.A.PostRecv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{{MR: e.mr, Length: 8}}})
				e.B.Post(verbstest.Send(2, e.B.SGE(0, 8)))
			},
			func(e ends) verbs.WC { return e.A.Received() },
		},
		"source of a Send that waits for a Read": {
			func(e ends) {
				e.A.Post(
					verbstest.Unsignaled(verbstest.Read(0, e.B.Remote(0), e.A.SGE(0, 8))),
					verbstest.Fenced(verbstest.Send(1, e.A.SGE(0, 1), verbs.SGE{MR: e.mr, Length: 8})))
			},
			func(e ends) verbs.WC { return e.A.Sent() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Config{Network: FabricConfig{Delay: second}})
				e := ends{Pair: verbstest.NewPair(t, p, p, verbstest.Options{})}
				buf := make([]byte, 8)
				copy(e.B.Bytes(0, 8), "not this")
				var err error
				if e.mr, err = e.A.PD.RegMR(buf, verbs.AccessLocalWrite); err != nil {
					t.Fatal(err)
				}
				c.post(e)
				must(t, e.mr.Close())
				if wc := c.next(e); wc.ID != 1 || wc.Status != verbs.WCLocProtErr {
					t.Errorf("completed with %+v (%v)", wc, wc.Status)
				}
				e.A.Ended()
				e.B.Ended()
				if string(buf) != string(make([]byte, 8)) {
					t.Errorf("the closed region holds %q", buf)
				}
			})
		})
	}
}

// Close waits for a copy in progress, and twice is once.
func TestRegionCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		pd, err := p.Device().AllocPD()
		must(t, err)
		mr, err := pd.RegMR(make([]byte, 8), verbs.AccessLocalWrite)
		must(t, err)
		r := mr.(*driver.SoftMR)
		for range 2 {
			if !r.Pin() {
				t.Fatal("an open region can't be pinned")
			}
		}
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		synctest.Wait()
		if r.Pin() {
			t.Error("a region being closed was pinned")
		}
		r.Unpin()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("closed with a copy in progress")
		default:
		}
		r.Unpin()
		should(t, <-closed)
		if r.Pin() {
			t.Error("a closed region was pinned")
		}
		if err := r.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		should(t, pd.Close())
	})
}

// The key of a bind that has been posted but waits works for nobody: neither
// to write nor to invalidate what the window still shows.
func TestKeyOfWaitingBind(t *testing.T) {
	for name, use := range map[string]func(key verbstest.Remote) verbs.SendWR{
		"Write":      func(r verbstest.Remote) verbs.SendWR { return verbstest.Write(1, r) },
		"Invalidate": func(r verbstest.Remote) verbs.SendWR { return verbstest.SendInvalidate(1, r.RKey) },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{})
			pair := verbstest.NewPair(t, p, p, verbstest.Options{})
			a, b := pair.A, pair.B
			mw := b.Window()
			bind := func() verbs.SendWR {
				return verbstest.Bind(2, verbs.BindInfo{MW: mw, MR: b.MR, Length: 8, Access: verbs.AccessRemoteWrite})
			}
			b.Post(bind())
			b.Done(2, verbs.WCBindMW)
			old := mw.RKey()
			p.Fabric().SetDelay(second)
			b.Post(
				verbstest.Read(3, a.Remote(0), b.SGE(64, 8)),
				verbstest.Fenced(verbstest.LocalInvalidate(4, old)), bind())
			p.Fabric().SetDelay(0)
			b.Receive(5, 128, 8)
			wr := use(verbstest.RemoteMW(mw))
			wr.SGL = []verbs.SGE{a.SGE(0, 8)}
			a.Post(wr)
			if err := a.Ended(); err == nil {
				t.Errorf("%s: no reason", name)
			}
			b.Ended()
			if wc := b.Received(); wc.Status != verbs.WCWRFlushErr {
				t.Errorf("%s: receive %+v", name, wc)
			}
		})
	}
}
