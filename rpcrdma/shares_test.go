package rpcrdma_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// acknowledging is a fabric on which a Send waits for a Receive. A peer that posts
// no Receive takes no reply.
func acknowledging() *loopback.Provider {
	return loopback.New(loopback.Config{Network: loopback.FabricConfig{Transport: loopback.InfiniBand}})
}

// hoarder is a peer that asks for more data than it takes.
type hoarder struct {
	*raw
	conn *rpcrdma.Conn
	data verbs.MR
	xid  uint32
}

// dialHoarder connects a hoarder with credits for many calls and without receives.
func (b *bed) dialHoarder(address string) *hoarder {
	b.t.Helper()
	r := b.dialRawAt(address, wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil), 1)
	h := &hoarder{raw: r, conn: <-b.conns}
	h.data = r.memory(1<<20, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	r.exchange(message(rpcrdma1.Header{XID: 1 << 20, Credits: 64}, procNull))
	return h
}

// ask makes n calls that read 1 MiB each.
func (h *hoarder) ask(n int) {
	h.t.Helper()
	for range n {
		h.xid++
		hdr := rpcrdma1.Header{XID: h.xid, Credits: 64, Writes: []rpcrdma1.WriteChunk{{segment(h.data, 0, 1<<20)}}}
		h.post(message(hdr, procRead, binary.BigEndian.AppendUint64(nil, 1<<52|1)...))
	}
}

// give makes n calls that write 1 MiB each.
func (h *hoarder) give(n int) {
	h.t.Helper()
	for range n {
		h.xid++
		h.post(writing(h.xid, h.data, 1<<20))
	}
}

// seemFar makes four calls that write data, and answers their Reads late. The Reads of further
// calls do not wait for each other then. It needs four free receives.
func (r *raw) seemFar(p *loopback.Provider, data verbs.MR) {
	r.t.Helper()
	p.Fabric().SetDelay(10 * time.Millisecond)
	n := len(data.Bytes())
	for i := range uint32(4) {
		r.post(writing(1<<21+i, data, n))
	}
	time.Sleep(time.Second)
	p.Fabric().SetDelay(0)
}

// writing is a call that writes the first n bytes of data.
func writing(xid uint32, data verbs.MR, n int) []byte {
	h := rpcrdma1.Header{XID: xid, Credits: 64, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: segment(data, 0, n)}}}
	return message(h, procWrite, xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), 0)...)
}

// atOnce fails the test if the bubble's clock moves during f.
func atOnce(t *testing.T, what string, f func() error) {
	t.Helper()
	start := time.Now()
	if err := f(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if d := time.Since(start); d > 0 {
		t.Errorf("%s waited for %v", what, d)
	}
}

// TestUnreadReplies: peers hold all the memory that they can get, in replies that
// they do not read. They delay neither connected peers nor newcomers.
func TestUnreadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, acknowledging(), bedConfig{memory: 128 << 20, timeout: time.Hour})
		reader, _ := b.dial(nil)
		for range 17 {
			b.dialHoarder(b.l.Addr().String()).ask(63)
		}
		synctest.Wait()
		if m := b.l.Memory(); m.Taken < 40<<20 {
			t.Errorf("the hoarders have only %d bytes", m.Taken)
		}
		for i := range uint32(5) {
			atOnce(t, "a reader", func() error { return readBack(b.ctx, reader, procRead, 1<<20, 1<<20, i) })
			atOnce(t, "a writer", func() error { return writeOut(b.ctx, reader, 1<<20, i) })
		}
		var newcomer *rpcrdma.Client
		atOnce(t, "connecting", func() error {
			newcomer, _ = b.dial(nil)
			return readBack(b.ctx, newcomer, procRead, 1<<20, 1<<20, 6)
		})
		if m := b.l.Memory(); m.Registered > m.Limit {
			t.Errorf("%+v", m)
		}
	})
}

// TestUnansweredReads: peers hold all the memory that they can get, in calls whose
// RDMA Reads they do not answer. They do not delay a WRITE of another peer.
func TestUnansweredReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		b := newBed(t, p, bedConfig{memory: 128 << 20, timeout: time.Hour})
		writer, _ := b.dial(nil)
		for range 10 {
			h := b.dialHoarder(b.l.Addr().String())
			h.listen(4)
			h.seemFar(p, h.data)
			h.giveUnanswered(p, 63)
		}
		synctest.Wait()
		for i := range uint32(5) {
			atOnce(t, "a writer", func() error { return writeOut(b.ctx, writer, 1<<20, i) })
			atOnce(t, "a reader", func() error { return readBack(b.ctx, writer, procRead, 1<<20, 1<<20, i) })
		}
		newcomer, _ := b.dial(nil)
		atOnce(t, "a newcomer", func() error { return writeOut(b.ctx, newcomer, 1<<20, 7) })
	})
}

// TestUnansweredReadsOfMany: peers have more connections than there are shares for,
// and answer no RDMA Read. That delays no WRITE of another peer; one of the same peer
// waits until they lose their connections, although none has more than its share.
func TestUnansweredReadsOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		b := newBed(t, p, bedConfig{memory: 64 << 20, timeout: time.Hour})
		same, _ := b.dial(nil)
		for range 60 {
			b.dialHoarder(b.l.Addr().String()).giveUnanswered(p, 1)
		}
		host := loopback.New(loopback.Config{Fabric: p.Fabric(), Host: netip.MustParseAddr("192.0.2.7")})
		other, err := rpcrdma.Dial(b.ctx, host, b.l.Addr().String(), rpcrdma.DialConfig{})
		must(t, err)
		defer other.Close()
		for i := range uint32(5) {
			atOnce(t, "another peer", func() error { return writeOut(b.ctx, other, 1<<20, i) })
		}
		start := time.Now()
		should(t, writeOut(b.ctx, same, 1<<20, 5))
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("the same peer waited for %v", d)
		}
	})
}

// TestReceivesForNewcomers: connections with many credits leave newcomers the
// receives that they need.
func TestReceivesForNewcomers(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: 16 << 20, unjudged: true})
	for i := range uint32(60) {
		c, conn := b.dial(nil)
		for range 2 { // the first posts all receives that it may have
			if err := echo(b.ctx, c, 100, i); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
		granted := conn.Info().CreditsGranted
		if granted < 8 || (i == 0 && granted != 64) {
			t.Errorf("connection %d was granted %d credits", i, granted)
		}
	}
	if m := b.l.Memory(); m.Registered > m.Limit {
		t.Errorf("%+v", m)
	}
}

// listenEvery makes a hoarder take a reply at intervals, until it is cut or enough
// is closed.
func (h *hoarder) listenEvery(pause time.Duration, enough <-chan struct{}) {
	for {
		select {
		case <-time.After(pause):
			h.listen(1)
		case <-h.conn.Done():
			return
		case <-enough:
			return
		}
	}
}

// TestTricklingReader: a peer that reads 60 KB per second of its borrowed memory
// loses its connection when others wait, with the reason. A slow peer above the
// floor keeps its connection, and so does the trickling one while nobody waits.
func TestTricklingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, acknowledging(), bedConfig{memory: 48 << 20, timeout: 10 * time.Hour})
		enough := make(chan struct{})
		var peers sync.WaitGroup
		trickling, slow := b.dialHoarder(b.l.Addr().String()), b.dialHoarder(b.l.Addr().String())
		trickling.ask(40)
		peers.Go(func() { trickling.listenEvery(17*time.Second, enough) })
		time.Sleep(5 * time.Minute)
		if err := trickling.conn.Err(); err != nil {
			t.Errorf("nobody waits: %v", err)
		}
		trickling.ask(17)
		slow.ask(60)
		peers.Go(func() { slow.listenEvery(3*time.Second, enough) })
		synctest.Wait()
		good, _ := b.dial(nil)
		var calls sync.WaitGroup
		for i := range 30 {
			calls.Go(func() { should(t, readBack(b.ctx, good, procRead, 1<<20, 1<<20, uint32(i))) })
		}
		<-trickling.conn.Done()
		if err := trickling.conn.Err(); !errors.Is(err, transport.ErrSlow) {
			t.Errorf("trickling: %v", err)
		}
		calls.Wait()
		time.Sleep(time.Minute)
		if err := slow.conn.Err(); err != nil {
			t.Errorf("slow: %v", err)
		}
		close(enough)
		peers.Wait()
	})
}

// TestClosedWindow: the same over TCP, with peers whose windows are closed.
func TestClosedWindow(t *testing.T) {
	b := newBed(t, newSoftiwarp(t), bedConfig{memory: 32 << 20})
	reader, _ := b.dial(nil)
	relay := newRelay(t, b.l.Addr().String())
	for range 4 {
		h := b.dialHoarder(relay.address)
		relay.hold()
		h.ask(63)
	}
	for b.l.Memory().Taken < 8<<20 {
		if b.ctx.Err() != nil {
			t.Fatal("the hoarders got no memory")
		}
	}
	for i := range uint32(10) {
		should(t, readBack(b.ctx, reader, procRead, 1<<20, 1<<20, i))
		should(t, writeOut(b.ctx, reader, 1<<20, i))
	}
	newcomer, _ := b.dial(nil)
	should(t, readBack(b.ctx, newcomer, procRead, 1<<20, 1<<20, 1))
	if n := relay.up(); n != 4 {
		t.Errorf("%d of 4 hoarders are left: the reader may have waited for their end", n)
	}
}

// relay forwards TCP connections. It can hold back the server's data.
type relay struct {
	t       *testing.T
	target  string
	address string

	mu    sync.Mutex
	held  chan struct{} // of the newest connection
	ended int
	all   int
}

func newRelay(t *testing.T, target string) *relay {
	l, err := net.Listen("tcp", bedHost+":0")
	must(t, err)
	r := &relay{t: t, target: target, address: l.Addr().String()}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			passing.Go(func() { r.pass(c, &passing) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		passing.Wait()
	})
	return r
}

// hold makes the newest connection's client read nothing more.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.held)
}

// up is the number of connections that have not ended.
func (r *relay) up() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all - r.ended
}

func (r *relay) pass(client net.Conn, passing *sync.WaitGroup) {
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		r.t.Error(err)
		client.Close()
		return
	}
	held := make(chan struct{})
	r.mu.Lock()
	r.held, r.all = held, r.all+1
	r.mu.Unlock()
	passing.Go(func() {
		buf := make([]byte, 4096)
		for {
			select {
			case <-held:
				return
			default:
			}
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	_, _ = io.Copy(server, client)
	r.mu.Lock()
	r.ended++
	r.mu.Unlock()
	client.Close()
	server.Close()
}
