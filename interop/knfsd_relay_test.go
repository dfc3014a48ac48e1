package interop

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// relay is a TCP relay between the host and a guest that holds back what the
// server sends, or cuts connections at a byte of the client's stream.
type relay struct {
	t      *testing.T
	l      net.Listener
	target string
	wg     sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // sent, held or closed
	conns   []net.Conn
	sent    int64 // bytes of the present connection that the server gets
	cutAt   int64 // sent may not become more: then the connection is cut; 0 is never
	held    bool  // the client gets nothing
	closed  bool
	// seen, if any, is shown what the server sends before the client gets it.
	seen func([]byte)
}

// newRelay starts a relay. It ends with the test.
func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, l: l, target: target}
	r.changed.L = &r.mu
	r.wg.Go(r.serve)
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		r.closed = true
		r.changed.Broadcast()
		for _, c := range r.conns {
			c.Close()
		}
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) address() string { return r.l.Addr().String() }

// serve relays connections one after the other.
func (r *relay) serve() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			r.t.Error(err)
			client.Close()
			return
		}
		if !r.begin(client, server) {
			return
		}
		r.wg.Go(func() { r.toServer(client, server) })
		r.wg.Go(func() { r.toClient(client, server) })
	}
}

// begin makes a connection the current one, unless the relay is closed.
func (r *relay) begin(client, server net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		client.Close()
		server.Close()
		return false
	}
	r.conns = append(r.conns, client, server)
	r.sent, r.cutAt = 0, 0
	return true
}

func (r *relay) toServer(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		n, cut := r.allow(n)
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if cut {
			return
		}
	}
}

// allow counts n bytes and returns how many of them may pass. It reports
// whether the connection is cut after them.
func (r *relay) allow(n int) (passing int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutAt != 0 && r.sent+int64(n) >= r.cutAt {
		n, cut = int(r.cutAt-r.sent), true
	}
	r.sent += int64(n)
	r.changed.Broadcast()
	return n, cut
}

func (r *relay) toClient(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if r.seen != nil {
			r.seen(buf[:n])
		}
		r.mu.Lock()
		for r.held && !r.closed {
			r.changed.Wait()
		}
		r.mu.Unlock()
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cutAfter cuts the current connection after n more bytes of the client.
func (r *relay) cutAfter(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutAt = r.sent + n
}

// hold keeps back what the server sends from now on, or lets it go, and
// returns how much the server was sent.
func (r *relay) hold(held bool) (sent int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
	r.changed.Broadcast()
	return r.sent
}

var errRelayClosed = errors.New("the relay is closed")

// waitSent waits until n bytes were sent to the server.
func (r *relay) waitSent(ctx context.Context, n int64) error {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sent < n {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.closed:
			return errRelayClosed
		}
		r.changed.Wait()
	}
	return nil
}
