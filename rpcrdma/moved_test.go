package rpcrdma_test

import (
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// shown is what a walk over all connections reads of one.
type shown struct {
	rpcrdma.Stats
	agreed  bool
	receive uint32
}

func show(s rpcrdma.Stats, i rpcrdma.Info) shown { return shown{s, i.VersionAgreed, i.PeerReceive} }

// watch fails the test if what a connection shows differs, and its mark is not set.
func watch(t *testing.T, over <-chan struct{}, m *fair.Mark, look func() shown) {
	for {
		m.Clear()
		before := look()
		now := before
		for ; now == before; now = look() {
			select {
			case <-over:
				return
			default:
				runtime.Gosched()
			}
		}
		if !m.IsSet() {
			t.Errorf("not marked: %+v, then %+v", before, now)
			return
		}
	}
}

// TestMoved: nothing that is shown of a connection changes without its mark.
func TestMoved(t *testing.T) {
	for _, p := range providers {
		for _, s := range []speaker{speakers[0], speakers[len(speakers)-1]} {
			t.Run(p.name+", "+s.name, func(t *testing.T) {
				var server, client fair.Mark
				b := newBed(t, p.make(t), bedConfig{settings: s.settings, moved: &server})
				set := rpcrdma.DefaultSettings()
				s.settings(&set)
				c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &set, Moved: &client, Logger: slog.New(noErrors{slog.DiscardHandler, t})})
				must(t, err)
				t.Cleanup(func() { should(t, c.Close()) })
				conn := <-b.conns
				over := make(chan struct{})
				var watching sync.WaitGroup
				watching.Go(func() { watch(t, over, &server, func() shown { return show(conn.Stats(), conn.Info()) }) })
				watching.Go(func() { watch(t, over, &client, func() shown { return show(c.Stats(), c.Info()) }) })
				load(t, b.ctx, c, 4, 12, func() {})
				close(over)
				watching.Wait()
			})
		}
	}
}

// TestIdleIsNotMoved: ticks leave the mark of an idle connection alone, until they reclaim a
// reply.
func TestIdleIsNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved fair.Mark
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: readReplies, timeout: time.Hour, moved: &moved})
		r := b.dialRaw(kernelPrivateData)
		s := <-b.conns
		r.post(message(rpcrdma1.Header{XID: 1}, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, 5000), 7)...))
		r.receive() // the reply, which this client does not read
		time.Sleep(22 * time.Second)
		synctest.Wait()
		moved.Clear()
		before := s.Stats()
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if s.Stats() != before || moved.IsSet() {
			t.Errorf("idle for a tick: moved %t, %+v, then %+v", moved.IsSet(), before, s.Stats())
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.RepliesReclaimed != 1 || !moved.IsSet() {
			t.Errorf("reclaimed: moved %t, %+v", moved.IsSet(), st)
		}
	})
}
