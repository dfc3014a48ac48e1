package softiwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestHandshakeTimeout: the wait for half a request ends.
func TestHandshakeTimeout(t *testing.T) {
	a := newArena(t, Config{})
	// The witness had enough time; later peers have little.
	a.l.Close()
	a.p.config.HandshakeTimeout = 10 * time.Millisecond
	a.l = must(a.p.Listen(t.Context(), "127.0.0.1:0"))(t)
	for _, n := range []int{0, 1, 19, 20, 23} {
		peer := a.dial()
		b := must((&mpa.Frame{Revision: 1, PrivateData: make([]byte, 4)}).Append(nil))(t)
		peer.write(b[:n])
		// Bytes that come after the timeout are reset, as nobody reads them.
		if got, err := io.ReadAll(peer.conn); len(got) != 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("after %d bytes: got %x, %v; want the end", n, got, err)
		}
	}
	a.calm()
}

// TestHandshakeFlood: when there are too many incomplete handshakes, the oldest of the
// address that has the most ends. A slow peer of another address, which came first, and a
// new one still get in.
func TestHandshakeFlood(t *testing.T) {
	const limit, flooder = 4, "127.0.0.66"
	a := newArena(t, Config{MaxHandshakes: limit, HandshakeTimeout: testTimeout})
	request := must((&mpa.Frame{Kind: mpa.Request, Revision: 1, PrivateData: []byte("slow")}).Append(nil))(t)
	slow := a.dial()
	slow.write(request[:5])
	var idle []*rawPeer
	for range 3 * limit {
		peer := a.dialFrom(flooder)
		peer.write([]byte("MPA"))
		idle = append(idle, peer)
	}
	peer, s := a.attach(rawRequest())
	s.recv(verbs.RecvWR{})
	peer.message(rdmap.Send, 1, nil)
	s.succeed(1)
	slow.write(request[5:])
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	id := must(a.l.GetRequest(ctx))(t)
	if got := string(id.Peer().PrivateData); got != "slow" {
		t.Errorf("request of another: %q", got)
	}
	id.Close()
	// The slow one left room for the rest. The one that got in sent its request at once.
	for _, p := range idle[:2*limit+1] {
		if _, err := io.ReadAll(p.conn); err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("an old handshake is still up: %v", err)
		}
	}
	a.calm()
}

// TestRequestsOnTheirWay: connections whose requests have not come yet take no place for a second,
// and do not replace each other. On a busy machine that second can pass meanwhile.
func TestRequestsOnTheirWay(t *testing.T) {
	a := newArena(t, Config{MaxHandshakes: 1, HandshakeTimeout: testTimeout})
	frame := rawRequest()
	request := must(frame.Append(nil))(t)
	for range 10 {
		far := []*rawPeer{a.dial(), a.dial(), a.dial()}
		near, s := a.attach(rawRequest()) // the listener has accepted what came before
		answered := 0
		for _, p := range far {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			if _, err := p.conn.Write(request); err == nil {
				context.AfterFunc(ctx, func() { p.conn.Close() })
				go func() { // the end of a connection that was replaced
					defer cancel()
					_, _ = io.ReadAll(p.conn)
				}()
				if id, err := a.l.GetRequest(ctx); err == nil {
					answered++
					id.Close()
				}
			}
			cancel()
		}
		near.conn.Close()
		_ = s.ended()
		if answered == len(far) {
			return
		}
	}
	t.Error("requests that came a moment later than their connections were lost")
}

// TestManyPeersAtOnce: peers with few requests each wait for their turn, and none is rejected.
func TestManyPeersAtOnce(t *testing.T) {
	for _, each := range []int{1, 2} {
		const peers = 30
		a := newArena(t, Config{Backlog: 8 * each, roomTimeout: testTimeout})
		for i := range peers * each {
			a.dialFrom(fmt.Sprintf("127.0.0.%d", 10+i/each)).frame(rawRequest())
		}
		all := make(map[netip.Addr]int)
		for n := range peers * each {
			ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
			id, err := a.l.GetRequest(ctx)
			cancel()
			if err != nil {
				t.Fatalf("%d of %d peers' %d requests each: %v", n, peers, each, err)
			}
			all[id.RemoteAddr().Addr()]++
			id.Close()
		}
		for peer, n := range all {
			if n != each {
				t.Errorf("%d requests of %s, want %d", n, peer, each)
			}
		}
	}
}

// TestNobodyFetches: when nobody fetches requests for long, peers with several lose theirs first, then
// the oldest makes room.
func TestNobodyFetches(t *testing.T) {
	a := newArena(t, Config{Backlog: 16, roomTimeout: time.Millisecond})
	several := []*rawPeer{a.dialFrom("127.0.0.10"), a.dialFrom("127.0.0.10"), a.dialFrom("127.0.0.10")}
	for _, p := range several {
		p.frame(rawRequest())
	}
	for i := range 16 {
		a.dialFrom(fmt.Sprintf("127.0.0.%d", 11+i)).frame(rawRequest())
	}
	for i, p := range several {
		if f, err := readFrame(p.conn, mpa.Reply); err != nil || !f.Reject {
			t.Errorf("request %d: %+v, %v", i, f, err)
		}
	}
}

// TestBacklogOfOnePeer: an address with too many requests loses its own, and another
// address's request finds room.
func TestBacklogOfOnePeer(t *testing.T) {
	const limit, requests, flooder = 3, 10, "127.0.0.66"
	lines := make(chan string, requests)
	a := newArena(t, Config{Backlog: limit, Logger: slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		lines <- string(b)
		return len(b), nil
	}), nil))})
	lost := func(n int) {
		for range n {
			if line := <-lines; !strings.Contains(line, "peer="+flooder) {
				t.Errorf("logged %s", line)
			}
		}
	}
	for range requests {
		a.dialFrom(flooder).frame(rawRequest())
	}
	lost(requests - limit)
	innocent := a.dial()
	innocent.frame(rawRequest())
	lost(1) // there was no room for it
	own := innocent.conn.LocalAddr().String()
	var got []string
	for range 2 { // its turn is behind one of the other address
		id := must(a.l.GetRequest(t.Context()))(t)
		got = append(got, id.RemoteAddr().String())
		id.Close()
	}
	if got[0] == own || got[1] != own {
		t.Errorf("requests of %v, want %s second", got, own)
	}
}

// TestBacklog: the number of requests that nobody fetches is bounded. The next
// request gets a rejection with the reason as private data, not a reset.
func TestBacklog(t *testing.T) {
	var log bytes.Buffer
	dropped := make(chan struct{})
	a := newArena(t, Config{Backlog: 2, Logger: testLogger(&log, dropped)})
	var peers [3]*rawPeer
	for i := range peers {
		peers[i] = a.dial()
		peers[i].frame(rawRequest())
	}
	<-dropped
	verbstest.Must(t, a.l.Close())
	rejected := 0
	for _, p := range peers {
		if f, err := readFrame(p.conn, mpa.Reply); err == nil && f.Reject && string(f.PrivateData) == errCrowded.Error() {
			rejected++
		}
	}
	if rejected != 1 {
		t.Errorf("%d of 3 were rejected", rejected)
	}
	if !strings.Contains(log.String(), errCrowded.Error()) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("logged %q", log.String())
	}
	if _, err := a.l.GetRequest(t.Context()); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("GetRequest of a closed listener: %v", err)
	}
}

// TestLingersOfOnePeer: an address that keeps the sockets of its rejected requests open loses the
// oldest. Another address reads why it is rejected.
func TestLingersOfOnePeer(t *testing.T) {
	p := newProvider(t, Config{Descriptors: 16})
	l := must(p.Listen(t.Context(), "127.0.0.1:0"))(t)
	defer l.Close()
	reject := func() {
		id := must(l.GetRequest(t.Context()))(t)
		verbstest.Should(t, id.Reject(t.Context(), []byte("no")))
		id.Close()
	}
	dial := func(from string) *rawPeer {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		peer := newRawPeer(t, must(d.Dial("tcp", l.Addr().String()))(t))
		peer.frame(rawRequest())
		reject()
		return peer
	}
	var all []*rawPeer
	for range 2 * p.config.maxLingers {
		all = append(all, dial("127.0.0.66"))
	}
	innocent := dial("127.0.0.1")
	if f, err := readFrame(innocent.conn, mpa.Reply); err != nil || !f.Reject || string(f.PrivateData) != "no" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, peer := range all[:p.config.maxLingers] {
		if _, err := io.ReadAll(peer.conn); err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("an old one: %v", err)
		}
	}
}

// TestFewDescriptors: with the fewest descriptors, a peer still reads why it is rejected, and why
// its connection ends.
func TestFewDescriptors(t *testing.T) {
	for n := 1; n <= 4; n++ {
		a := newArena(t, Config{Descriptors: n})
		rejected := a.dial()
		rejected.frame(rawRequest())
		id := must(a.l.GetRequest(t.Context()))(t)
		verbstest.Should(t, id.Reject(t.Context(), []byte("no")))
		id.Close()
		if f, err := readFrame(rejected.conn, mpa.Reply); err != nil || !f.Reject || string(f.PrivateData) != "no" {
			t.Errorf("%d descriptors: %+v, %v", n, f, err)
		}
		rejected.conn.Close()
		peer, _ := a.attach(rawRequest())
		peer.message(rdmap.Send, 1, nil)
		peer.terminated(rdmap.UntaggedNoBuffer)
	}
}

// TestGoneMeanwhile: a peer that has closed its connection while that waited in the kernel takes no
// turn.
func TestGoneMeanwhile(t *testing.T) {
	a := newArena(t, Config{Backlog: 1, roomTimeout: testTimeout})
	first, gone, last := a.dialFrom("127.0.0.10"), a.dialFrom("127.0.0.11"), a.dialFrom("127.0.0.12")
	first.frame(rawRequest())
	gone.frame(rawRequest())
	gone.conn.Close()
	last.frame(rawRequest())
	for _, want := range []*rawPeer{first, last} {
		id := must(a.l.GetRequest(t.Context()))(t)
		if got, want := id.RemoteAddr().String(), want.conn.LocalAddr().String(); got != want {
			t.Errorf("request of %s, want %s", got, want)
		}
		id.Close()
	}
}
