package port

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// client is a client's end of a connection.
type client struct {
	net.Conn // the server's end
	own      net.Conn
}

// floods writes 64 MiB, or until the connection ends.
func (c *client) floods() {
	buf := make([]byte, 64<<10)
	for range 1024 {
		if _, err := c.own.Write(buf); err != nil {
			return
		}
	}
}

// reads returns a counter of the bytes that the server reads until the connection ends.
func (c *client) reads() *int64 {
	n := new(int64)
	go func() {
		buf := make([]byte, 32<<10)
		for {
			got, err := c.Read(buf)
			if *n += int64(got); err != nil {
				return
			}
		}
	}()
	return n
}

// world is a listener whose clients have the keys in names, one after the other.
type world struct {
	t *testing.T
	*Listener
	ends  chan net.Conn
	names chan string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, ends: make(chan net.Conn, 1), names: make(chan string, 1)}
	table := connlimit.New(time.Now(), connlimit.Config{})
	w.Listener = Listen(w, table, func(net.Conn) connlimit.Key { return connlimit.Name(<-w.names) }, slog.New(slog.DiscardHandler))
	return w
}

func (w *world) Accept() (net.Conn, error) { return <-w.ends, nil }
func (w *world) Close() error              { return nil }
func (w *world) Addr() net.Addr            { return &net.UnixAddr{} }

func (w *world) connect(name string) *client {
	own, server := net.Pipe()
	w.ends <- server
	w.names <- name
	c, err := w.Listener.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { own.Close(); c.Close() })
	return &client{c, own}
}

// instantly fails the test if the server does not read n bytes of c at once.
func (w *world) instantly(c *client, n int) {
	w.t.Helper()
	go c.own.Write(make([]byte, n))
	start := time.Now()
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil || !time.Now().Equal(start) {
		w.t.Errorf("%d bytes were read in %v: %v", n, time.Since(start), err)
	}
}

// TestFloodIsPaced: connections of one client that send all the time are read at the rate
// of the client. A new connection of the client is read at once, and so are those of others.
func TestFloodIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const conns, seconds = 16, 20
		var sent []*int64
		for range conns {
			c := w.connect("flood")
			go c.floods()
			sent = append(sent, c.reads())
		}
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		var all int64
		for _, n := range sent {
			if all += *n; *n < unpaced {
				t.Errorf("a connection was read for %d bytes", *n)
			}
		}
		if most := int64(2*conns*unpaced + burst + seconds*perSecond); all > most || all < seconds*perSecond {
			t.Errorf("%d bytes of %d connections were read in %d s, want %d at most", all, conns, seconds, most)
		}
		w.instantly(w.connect("flood"), unpaced)
		w.instantly(w.connect("other"), burst)
	})
}

// TestPaceIsPaidBack: a client that sent much and then nothing may send as much again. Its
// pace is forgotten with its last connection.
func TestPaceIsPaidBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := w.connect("client"), w.connect("client")
		w.instantly(first, burst)
		time.Sleep(burst / perSecond * time.Second)
		w.instantly(second, burst)
		first.Close()
		if len(w.paces.byKey) != 1 {
			t.Errorf("%d keys for one connection", len(w.paces.byKey))
		}
		second.Close()
		second.Close()
		if len(w.paces.byKey) != 0 {
			t.Errorf("%d keys without connections", len(w.paces.byKey))
		}
	})
}

// TestCloseWakes: a connection that waits for its pace is closed at once.
func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.connect("client")
		w.instantly(c, burst)
		w.instantly(c, piece) // behind from now on
		ended := make(chan time.Time)
		start := time.Now()
		go func() {
			_, _ = c.Read(make([]byte, piece))
			ended <- time.Now()
		}()
		synctest.Wait()
		c.Close()
		if at := <-ended; !at.Equal(start) {
			t.Errorf("the read ended %v after it began", at.Sub(start))
		}
	})
}
