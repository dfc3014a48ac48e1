package rpcrdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Tests of what RDMA Reads are placed in, on a device that tells the peer its key
// and has the peer write to it (verbs.DeviceAttr.ReadSinkRemoteWrite).

func newSinkDevice() *watchedProvider {
	return watching(loopback.New(loopback.Config{ReadSinkRemoteWrite: true}))
}

// fetchSize is what is read for each call of a fetcher.
const fetchSize = 5000

// fetcher is a raw peer whose calls have a read chunk, and which attacks what that is read
// into.
type fetcher struct {
	*raw
	data, weapon verbs.MR
	sum          uint32 // of data
}

func (b *bed) dialFetcher() *fetcher {
	f := &fetcher{raw: b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))}
	f.data = f.memory(fetchSize, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	pattern(f.data.Bytes(), 1)
	f.sum = crc32.ChecksumIEEE(f.data.Bytes())
	f.weapon = f.memory(fetchSize, 0)
	return f
}

// ask makes a call whose argument is to be read.
func (f *fetcher) ask(xid uint32) {
	h := rpcrdma1.Header{XID: xid, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: segment(f.data, 0, fetchSize)}}}
	f.post(message(h, procWrite, 0, 0, fetchSize>>8, fetchSize&0xff, 0, 0, 0, 0))
}

// strike writes n bytes from off of a sink, whoever that is of.
func (f *fetcher) strike(sink verbs.SGE, off, n int) error {
	to := verbstest.RemoteMR(sink.MR).At(sink.Offset + off)
	_, err := f.qp.PostSend([]verbs.SendWR{verbstest.Write(1<<42, to, verbs.SGE{MR: f.weapon, Length: n})})
	return err
}

// answered takes the reply of a call, whose argument must have arrived whole.
func (f *fetcher) answered() {
	f.t.Helper()
	msg := f.receive()
	if len(msg) < 12 {
		f.t.Fatalf("connection ended: %v", f.qp.Err())
	}
	if got := binary.BigEndian.Uint32(msg[len(msg)-8:]); got != f.sum {
		f.t.Errorf("checksum %#x, want %#x", got, f.sum)
	}
}

// TestSinkBounds: while a call's data is read, the key that the peer is told opens the
// bytes to be read and no others.
func TestSinkBounds(t *testing.T) {
	for _, c := range []struct {
		name    string
		off, n  int
		refused bool
	}{
		{"its bytes", 0, fetchSize, false},
		{"the byte before", -1, 1, true},
		{"the byte after", fetchSize, 1, true},
		{"its last byte and the next", fetchSize - 1, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newSinkDevice()
			var peer *fetcher
			p.dev.reading = func(sink verbs.SGE) { should(t, peer.strike(sink, c.off, c.n)) }
			b := newBed(t, p, bedConfig{})
			peer = b.dialFetcher()
			conn := <-b.conns
			peer.ask(1)
			if !c.refused {
				peer.answered()
				return
			}
			peer.ended()
			<-conn.Done()
			if conn.Err() == nil {
				t.Error("the connection ended in order")
			}
		})
	}
}

// TestSinkIsClosed: once a call's data is there, the key that was told opens nothing, neither
// before the handler looks at it nor after.
func TestSinkIsClosed(t *testing.T) {
	for _, when := range []string{"before it is looked at", "after the reply"} {
		t.Run(when, func(t *testing.T) {
			p := newSinkDevice()
			var peer *fetcher
			var sink verbs.SGE
			p.dev.reading = func(s verbs.SGE) { sink = s }
			served := make(chan []byte, 1)
			h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
				if when == "before it is looked at" {
					should(t, peer.strike(sink, 0, fetchSize))
				}
				err := service{}.ServeRPC(ctx, c, r)
				served <- append([]byte(nil), r.Stream...)
				return err
			})
			b := newBed(t, p, bedConfig{handler: h})
			peer = b.dialFetcher()
			conn := <-b.conns
			peer.ask(1)
			stream := <-served
			if got := binary.BigEndian.Uint32(stream[len(stream)-8:]); got != peer.sum {
				t.Errorf("the handler saw data of checksum %#x, want %#x", got, peer.sum)
			}
			if when == "after the reply" {
				peer.answered()
				should(t, peer.strike(sink, 0, 1))
			}
			peer.ended()
			<-conn.Done()
		})
	}
}

// TestSinkOfLostConnection: when a connection ends while data is read, its key opens
// nothing to others of the listener either, though calls of it are still being
// served.
func TestSinkOfLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSinkDevice()
		fabric := p.Provider.(*loopback.Provider).Fabric()
		var sink verbs.SGE
		p.dev.reading = func(s verbs.SGE) {
			sink = s
			fabric.SetDelay(time.Minute) // so that it stays under way
		}
		release := make(chan struct{})
		h := handlerFunc(func(context.Context, *call, *reply) error { <-release; return nil })
		b := newBed(t, p, bedConfig{handler: h, timeout: time.Hour})
		peer, other := b.dialFetcher(), b.dialFetcher()
		conn, second := <-b.conns, <-b.conns
		peer.post(message(rpcrdma1.Header{XID: 1}, procNull))
		time.Sleep(time.Second) // another goroutine than the handler's takes what comes
		peer.ask(2)
		synctest.Wait()
		if sink.MR == nil {
			t.Fatal("nothing is being read")
		}
		fabric.SetDelay(0)
		go conn.Close()
		time.Sleep(time.Second)
		should(t, other.strike(sink, 0, 1))
		other.ended()
		close(release)
		<-conn.Done()
		<-second.Done()
	})
}

// TestSinkRefused: a device that registers no more ends the connection whose call
// needs it, with the reason, and no other.
func TestSinkRefused(t *testing.T) {
	p := newSinkDevice()
	refusal := errors.New("too little of it may be locked")
	b := newBed(t, p, bedConfig{})
	good, _ := b.dial(nil)
	peer := b.dialFetcher()
	conn := <-b.conns
	p.dev.opening = func() error { return refusal }
	peer.ask(1)
	peer.ended()
	<-conn.Done()
	if !errors.Is(conn.Err(), refusal) {
		t.Errorf("the connection ended with %v", conn.Err())
	}
	if err := echo(b.ctx, good, 1000, 1); err != nil {
		t.Errorf("another connection: %v", err)
	}
}
