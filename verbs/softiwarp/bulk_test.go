package softiwarp

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/bulk/bulktest"
)

// TestMuchDataTakesPlaces: while all places of package bulk are taken, a large Write waits,
// and a small message of another connection does not.
func TestMuchDataTakesPlaces(t *testing.T) {
	a, b := connectPair(t, Config{}, Config{})
	c, d := connectPair(t, Config{}, Config{})
	const size = 1 << 20
	src, dst := a.region(randomBytes(size), allAccess), b.region(make([]byte, size), allAccess)
	note, got := c.region(randomBytes(100), allAccess), d.region(make([]byte, 100), allAccess)
	places := bulktest.Occupy()
	done := make(chan struct{})
	b.recv(verbs.RecvWR{})
	go func() {
		defer close(done)
		a.send(verbs.SendWR{Op: verbs.OpRDMAWrite, SGL: sge(src, 0, size), RemoteAddr: dst.Addr(), RKey: dst.RKey()},
			verbs.SendWR{Flags: verbs.SendSignaled})
	}()
	places.AwaitOne(t, done)
	d.recv(verbs.RecvWR{SGL: sge(got, 0, 100)})
	c.send(verbs.SendWR{Flags: verbs.SendSignaled, SGL: sge(note, 0, 100)})
	d.succeed(1)
	c.succeed(1)
	places.Release()
	<-done
	b.succeed(1)
	a.succeed(1)
	if !bytes.Equal(src.Bytes(), dst.Bytes()) || !bytes.Equal(note.Bytes(), got.Bytes()) {
		t.Error("wrong data")
	}
	bulktest.AwaitNone()
}

// TestLingeringTakesPlace: the rest of what an ended connection sent takes a place, too.
func TestLingeringTakesPlace(t *testing.T) {
	var s buffers
	s.init()
	defer s.close()
	var l lingers
	l.init(&Config{maxLingers: 1, maxUnread: 1, lingerTimeout: time.Hour})
	conn, peer := connected(t)
	rest := leftover{left: s.get(batchSize), to: batchSize}
	places := bulktest.Occupy()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := io.ReadFull(peer, make([]byte, batchSize)); err != nil {
			t.Error(err)
		}
	}()
	l.add(conn, rest, nil, false)
	places.AwaitOne(t, done)
	places.Release()
	<-done
	peer.Close()
	l.close()
	bulktest.AwaitNone()
}
