package rpcrdma_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestReplyReclaimed: a reply that nobody acknowledges is reclaimed, and can't
// be read any more.
func TestReplyReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: readReplies, timeout: time.Hour})
		r := b.dialRaw(kernelPrivateData)
		s := <-b.conns
		read := func(h rpcrdma1.Header) {
			sink := r.memory(8192, verbs.AccessLocalWrite)
			_, err := r.qp.PostSend([]verbs.SendWR{{
				ID: 1 << 42, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, RemoteAddr: h.Reads[0].Offset, RKey: h.Reads[0].Handle,
				SGL: []verbs.SGE{{MR: sink, Length: int(h.Reads[0].Length)}},
			}})
			r.ok(err)
		}
		ask := func(xid uint32) rpcrdma1.Header {
			r.post(message(rpcrdma1.Header{XID: xid}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 7)...))
			var h rpcrdma1.Header
			_, err := h.Decode(r.receive())
			r.ok(err)
			if len(h.Reads) != 1 || h.Reads[0].Length != 5000 {
				t.Fatalf("%+v", h)
			}
			return h
		}
		h := ask(1)
		read(h)
		if _, ok := r.wait(func(wc verbs.WC) bool { return wc.ID == 1<<42 }); !ok {
			t.Fatal("can't be read")
		}
		time.Sleep(36 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.RepliesReclaimed != 1 || st.LocalInvalidations != 1 {
			t.Errorf("%+v", st)
		}
		// A late DONE is no offence, a second one is ignored.
		done := rpcrdma1.Header{XID: 1, Version: 1, Credits: 1, Proc: rpcrdma1.Done}
		r.post(done.Append(nil))
		r.post(done.Append(nil))
		ask(2)
		if st := s.Stats(); st.Ignored != 1 {
			t.Errorf("%+v", st)
		}
		read(h) // too late
		r.ended()
		<-s.Done()
	})
}

// TestExposuresFollowTheLimit: the memory of replies that peers read is a part of the
// listener's memory limit as it is now.
func TestExposuresFollowTheLimit(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: readReplies, memory: rpcrdma.MinMemoryLimit})
	r := b.dialRaw(kernelPrivateData)
	xid := uint32(0)
	exposed := func() bool {
		t.Helper()
		xid++
		r.post(message(rpcrdma1.Header{XID: xid}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 1<<20), 7)...))
		var h rpcrdma1.Header
		_, err := h.Decode(r.receive())
		r.ok(err)
		return len(h.Reads) == 1
	}
	if !exposed() || exposed() {
		t.Error("not one reply is exposed with the smallest limit")
	}
	b.l.SetMemoryLimit(32 << 20)
	for range 2 {
		if !exposed() {
			t.Error("not more with more memory")
		}
	}
	b.l.SetMemoryLimit(rpcrdma.MinMemoryLimit)
	r.post((&rpcrdma1.Header{XID: 1, Version: 1, Credits: 1, Proc: rpcrdma1.Done}).Append(nil))
	if exposed() {
		t.Error("as many with less memory again")
	}
}

// TestHostileDones: DONEs for anything, more than there are credits, do not
// disturb the others on the connection or its memory.
func TestHostileDones(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) {
			readReplies(s)
			s.CreditsMax = 2
		}})
		r := b.dialRaw(kernelPrivateData)
		s := <-b.conns
		args := xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 7)
		for round := range uint32(20) {
			h, _ := r.exchange(message(rpcrdma1.Header{XID: round}, procRead, args...))
			if len(h.Reads) != 1 {
				t.Fatalf("%+v", h)
			}
			for i := range uint32(3) {
				done := rpcrdma1.Header{XID: round + i, Version: 1, Credits: 1, Proc: rpcrdma1.Done}
				r.post(done.Append(nil))
				r.exchange(message(rpcrdma1.Header{XID: 1000}, procNull))
			}
		}
		if st := s.Stats(); st.Ignored != 40 || st.Calls != 80 || st.Replies != 80 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReadReplyMemory: with little memory at either end, replies wait for it or
// get the error, and nothing stands still.
func TestReadReplyMemory(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: readReplies, memory: 1})
		set := rpcrdma.DefaultSettings()
		readReplies(&set)
		c, err := rpcrdma.Dial(b.ctx, refereetest.Around(b.t, p), b.l.Addr().String(), rpcrdma.DialConfig{Settings: &set, MemoryLimit: 1})
		must(t, err)
		defer c.Close()
		var wg sync.WaitGroup
		for i := range uint32(6) {
			wg.Go(func() {
				for k := range 4 {
					if _, err := unexpected(b.ctx, c, procRead, 900000, 0, i); err != nil && !tooMany(err) {
						t.Errorf("%d: %v", k, err)
					}
				}
			})
		}
		wg.Wait()
		// The last DONEs may still be on their way; then there is room again.
		_, err = unexpected(b.ctx, c, procRead, 900000, 0, 9)
		for tooMany(err) && b.ctx.Err() == nil {
			_, err = unexpected(b.ctx, c, procRead, 900000, 0, 9)
		}
		should(t, err)
	})
}

// TestReadReplyDrop: the network ends a connection on which replies are being
// read after any number of messages. Both sides end and nothing is left.
func TestReadReplyDrop(t *testing.T) {
	for _, windows := range []bool{true, false} {
		p := loopback.New(loopback.Config{NoWindows: !windows, NoSendInvalidate: !windows})
		b := newBed(t, p, bedConfig{settings: readReplies})
		for n := 1; n < 30; n++ {
			p.Fabric().SetFaults(loopback.Faults{DropAfter: n})
			c, s := b.dial(readReplies)
			var wg sync.WaitGroup
			for i := range uint32(2) {
				wg.Go(func() {
					for longEcho(b.ctx, c, 5000, i) == nil {
					}
				})
			}
			wg.Wait()
			<-c.Done()
			<-s.Done()
			if c.Err() == nil && s.Err() == nil {
				t.Errorf("after %d messages: no reason", n)
			}
		}
		if m := b.l.Memory().Taken; m > 4096 {
			t.Errorf("%d bytes taken", m)
		}
	}
}
