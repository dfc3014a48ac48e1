package rpctcp

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/bulk/bulktest"
)

// connected returns a Sender on a TCP connection, and the peer's end.
func connected(t *testing.T) (*Sender, *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	peer, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return NewSender(here, time.Minute, func(err error) { t.Error(err) }), peer
}

// read returns the next n bytes.
func read(t *testing.T, from io.Reader, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(from, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMuchDataTakesPlaces: while all places of package bulk are taken, a large record waits,
// and a small record of another connection does not.
func TestMuchDataTakesPlaces(t *testing.T) {
	large, peer := connected(t)
	small, other := connected(t)
	text := bytes.Repeat([]byte("0123456789abcdef"), batchBytes/16)
	places := bulktest.Occupy()
	l, arrived, first := newLetter(text), make(chan struct{}), make([]byte, 1)
	go large.Send(l)
	go func() {
		defer close(arrived)
		if _, err := io.ReadFull(peer, first); err != nil {
			t.Error(err)
		}
	}()
	places.AwaitOne(t, arrived)
	s := newLetter([]byte("small"))
	small.Send(s)
	if got := read(t, other, 5); string(got) != "small" || <-s.result != nil {
		t.Errorf("%q", got)
	}
	places.Release()
	<-arrived
	if rest := read(t, peer, len(text)-1); !bytes.Equal(append(first, rest...), text) {
		t.Error("wrong data")
	}
	if err := <-l.result; err != nil {
		t.Error(err)
	}
}

// TestPeersKeepNoPlace: while the peer does not read, nobody has a place.
func TestPeersKeepNoPlace(t *testing.T) {
	const most = 64 << 20 // more than the sockets take
	s, peer := connected(t)
	w, done := bulkWriter{left: net.Buffers{make([]byte, most)}}, make(chan struct{})
	go func() {
		defer close(done)
		if n, err := w.write(s.nc); n != most || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	}()
	read(t, peer, 1)
	bulktest.AwaitNone()
	select {
	case <-done:
		t.Errorf("sent %d bytes that the peer did not read", most)
	default:
	}
	read(t, peer, most-1)
	<-done
}

// TestManyPieces: much data in more pieces than one system call takes, some of them empty,
// arrives in order.
func TestManyPieces(t *testing.T) {
	s, peer := connected(t)
	var want []byte
	var pieces letters
	for i := range 50 {
		p := bytes.Repeat([]byte{byte(i)}, i%3*20_000)
		pieces.text = append(pieces.text, p)
		want = append(want, p...)
	}
	pieces.result = make(chan error, 1)
	go s.Send(&pieces)
	if got := read(t, peer, len(want)); !bytes.Equal(got, want) {
		t.Error("wrong data")
	}
	if err := <-pieces.result; err != nil {
		t.Error(err)
	}
}

// letters is an Outgoing record of several pieces.
type letters struct {
	text   [][]byte
	result chan error
}

func (l *letters) AppendTo(vec net.Buffers) net.Buffers { return append(vec, l.text...) }
func (l *letters) Sent(err error)                       { l.result <- err }
