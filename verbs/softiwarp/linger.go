package softiwarp

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs/peers"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
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
// peer may then never read the Terminate. When too many linger, the oldest of the peer that has
// the most is closed.
type lingers struct {
	mu    sync.Mutex
	conns *peers.List[*net.TCPConn]
	wg    sync.WaitGroup
}

// add takes ownership of conn. It writes last, closes the sending side, and drops input
// until the peer closes its side. If the peer has closed already and last is empty, it closes
// conn at once.
func (l *lingers) add(conn *net.TCPConn, last []byte, peerClosed bool) {
	if peerClosed && len(last) == 0 {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Now().Add(lingerTimeout))
	l.mu.Lock()
	defer l.mu.Unlock()
	at, lost := l.conns.Add(tcpaddr.Of(conn.RemoteAddr()).Addr(), conn)
	if lost != nil {
		_ = lost.Value.SetDeadline(longAgo) // its goroutine closes it
	}
	l.wg.Go(func() {
		l.finish(conn, last)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns.Remove(at)
	})
}

func (l *lingers) finish(conn *net.TCPConn, last []byte) {
	if _, err := conn.Write(last); err == nil && conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{conn})
	}
	_ = conn.Close()
}

// close stops waiting for peers and returns when all sockets are closed.
func (l *lingers) close() {
	l.mu.Lock()
	for conn, ok := l.conns.Next(); ok; conn, ok = l.conns.Next() {
		_ = conn.SetReadDeadline(longAgo)
	}
	l.mu.Unlock()
	l.wg.Wait()
}
