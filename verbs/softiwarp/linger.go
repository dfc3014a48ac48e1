package softiwarp

import (
	"io"
	"net"
	"sync"
	"time"
)

const (
	// lingerTimeout bounds the time for writing a finished connection's last bytes
	// and for the peer to close its side.
	lingerTimeout = 2 * time.Second
	// maxLingers bounds the connections that linger at one time.
	maxLingers = 1024
)

// lingers closes the sockets of finished connections without losing the last bytes
// written. A socket that is closed with unread input resets the connection, and the
// peer may then never read the Terminate.
type lingers struct {
	most  int // at most maxLingers
	mu    sync.Mutex
	conns map[*net.TCPConn]struct{}
	wg    sync.WaitGroup
}

// add takes ownership of conn. It writes last, closes the sending side, and drops input
// until the peer closes its side. If the peer has closed already and last is empty, or
// too many connections linger, it closes conn at once.
func (l *lingers) add(conn *net.TCPConn, last []byte, peerClosed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (peerClosed && len(last) == 0) || len(l.conns) >= l.most {
		_ = conn.Close()
		return
	}
	if l.conns == nil {
		l.conns = make(map[*net.TCPConn]struct{})
	}
	l.conns[conn] = struct{}{}
	_ = conn.SetDeadline(time.Now().Add(lingerTimeout))
	l.wg.Go(func() {
		l.finish(conn, last)
	})
}

func (l *lingers) finish(conn *net.TCPConn, last []byte) {
	if _, err := conn.Write(last); err == nil && conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{conn})
	}
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// close stops waiting for peers and returns when all sockets are closed.
func (l *lingers) close() {
	l.mu.Lock()
	for conn := range l.conns {
		_ = conn.SetReadDeadline(longAgo)
	}
	l.mu.Unlock()
	l.wg.Wait()
}
