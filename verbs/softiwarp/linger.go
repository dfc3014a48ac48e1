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
	// maxUnread bounds those of them whose peers do not take the rest of what was sent: each
	// keeps a buffer of up to batchSize bytes.
	maxUnread = 32
)

// lingers closes the sockets of finished connections without losing the last bytes
// written. A socket that is closed with unread input resets the connection, and the
// peer may then never read the Terminate. When too many linger, the oldest of the peer that has
// the most is closed.
type lingers struct {
	timeout time.Duration
	wg      sync.WaitGroup

	mu     sync.Mutex
	conns  *peers.List[*net.TCPConn]
	unread *peers.List[*net.TCPConn] // those of conns that keep a buffer
}

func (l *lingers) init(c *Config) {
	l.timeout = c.lingerTimeout
	l.conns, l.unread = peers.NewList[*net.TCPConn](c.maxLingers), peers.NewList[*net.TCPConn](c.maxUnread)
}

// add takes ownership of conn and rest. It writes rest and last, closes the sending side, and
// drops input until the peer closes its side. If the peer has closed already and there is
// nothing to write, it closes conn at once.
func (l *lingers) add(conn *net.TCPConn, rest leftover, last []byte, peerClosed bool) {
	if peerClosed && rest.left == nil && len(last) == 0 {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Now().Add(l.timeout))
	closed, written := l.enter(l.conns, conn), func() {}
	if rest.left != nil {
		written = l.enter(l.unread, conn)
	}
	l.wg.Go(func() {
		defer closed()
		err := rest.writeTo(conn)
		if err == nil && len(last) > 0 { // a Write of nothing fails, too, once the place is lost
			_, err = conn.Write(last)
		}
		written()
		if err == nil && conn.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, struct{ io.Reader }{conn})
		}
		_ = conn.Close()
	})
}

// enter adds conn to a list, from which leave removes it.
func (l *lingers) enter(list *peers.List[*net.TCPConn], conn *net.TCPConn) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, lost := list.Add(tcpaddr.Of(conn.RemoteAddr()).Addr(), conn)
	if lost != nil {
		end := (*net.TCPConn).SetDeadline // its goroutine closes it
		if list == l.unread {
			end = (*net.TCPConn).SetWriteDeadline // unless it has just written all
		}
		_ = end(lost.Value, longAgo)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		list.Remove(at)
	}
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
