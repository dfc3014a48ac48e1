package softiwarp

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (conn, peer *net.TCPConn) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	peer = must(net.Dial("tcp", l.Addr().String()))(t).(*net.TCPConn)
	t.Cleanup(func() { peer.Close() })
	verbstest.Must(t, peer.SetDeadline(time.Now().Add(testTimeout)))
	conn = must(l.Accept())(t).(*net.TCPConn)
	t.Cleanup(func() { conn.Close() })
	return conn, peer
}

// full returns both ends of a TCP connection of which one takes no more: its peer does not read.
// n is the number of bytes on their way to the peer.
func full(t *testing.T) (conn, peer *net.TCPConn, n int) {
	conn, peer = connected(t)
	verbstest.Must(t, conn.SetWriteBuffer(4<<10))
	for taken := 1; taken > 0; n += taken {
		verbstest.Must(t, conn.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
		taken, _ = conn.Write(make([]byte, bufferSize))
	}
	return conn, peer, n
}

// TestUnreadIsBounded: a peer that does not read the rest of what its ended connections sent keeps
// few buffers. Its oldest connections lose the rest.
func TestUnreadIsBounded(t *testing.T) {
	var s buffers
	s.init()
	var l lingers
	l.init(&Config{maxLingers: 8, maxUnread: 2, lingerTimeout: time.Hour})
	before := offheap.Read()
	const all = 4
	var ends [all]*net.TCPConn
	var sent [all]int
	for i := range ends {
		var conn *net.TCPConn
		conn, ends[i], sent[i] = full(t)
		b := s.get(bufferSize)
		b.mem[100], b.mem[bufferSize-1] = 'a', 'z'
		l.add(conn, leftover{left: b, from: 100, to: bufferSize}, []byte("goodbye"), false)
	}
	for i, peer := range ends {
		got, err := io.ReadAll(peer)
		if i < all-2 {
			if len(got) >= sent[i]+bufferSize-100 {
				t.Errorf("connection %d, an old one, got %d bytes", i, len(got))
			}
			continue
		}
		if rest := got[min(sent[i], len(got)):]; err != nil || len(rest) != bufferSize-100+len("goodbye") || rest[0] != 'a' || !bytes.HasSuffix(rest, []byte("zgoodbye")) {
			t.Errorf("connection %d: %d bytes of the rest, %v", i, len(rest), err)
		}
		peer.Close()
	}
	l.close()
	s.close()
	if now := offheap.Read(); now.Used != before.Used || l.conns.Len()+l.unread.Len() > 0 {
		t.Errorf("%+v in the end, %+v before; %d and %d linger", now, before, l.conns.Len(), l.unread.Len())
	}
}

// TestWrittenInTime: a connection that loses its place after it has written its rest still waits for its peer, which
// may not have read the rest yet.
func TestWrittenInTime(t *testing.T) {
	var l lingers
	l.init(&Config{maxLingers: 2, maxUnread: 1})
	conn, peer := connected(t)
	other, _ := connected(t)
	leave := l.enter(l.unread, conn)
	l.enter(l.unread, other)
	must(peer.Write([]byte{1}))(t)
	if n, err := conn.Read(make([]byte, 1)); n != 1 {
		t.Errorf("it does not wait any more: %v", err)
	}
	leave()
}

// TestAllWrittenInTime: the same if it loses the place between the last write and giving the place back.
func TestAllWrittenInTime(t *testing.T) {
	for _, last := range []string{"", "goodbye"} {
		var s buffers
		s.init()
		var l lingers
		l.init(&Config{maxLingers: 2, maxUnread: 1, lingerTimeout: time.Hour})
		conn, peer, n := full(t)
		l.add(conn, leftover{left: s.get(bufferSize), to: bufferSize}, []byte(last), false)
		l.mu.Lock() // so that it keeps the place
		if _, err := io.ReadFull(peer, make([]byte, n+bufferSize+len(last))); err != nil {
			t.Errorf("%q: %v", last, err)
		}
		verbstest.Must(t, conn.SetWriteDeadline(longAgo)) // as enter does
		l.mu.Unlock()
		if more, err := io.ReadAll(peer); len(more) > 0 || err != nil {
			t.Errorf("%q: %d bytes more, %v", last, len(more), err)
		}
		for range 2 { // a closed socket answers the first with a reset
			if _, err := peer.Write([]byte{1}); err != nil {
				t.Errorf("%q: it does not wait any more: %v", last, err)
			}
		}
		peer.Close()
		l.close()
		s.close()
	}
}
