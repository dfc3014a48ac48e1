package softiwarp

import (
	"container/list"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// listener accepts TCP connections and reads their MPA requests, each in a
// goroutine of its own. A flood of half-done handshakes drops the oldest of
// them and can neither stop the accepting nor pile up.
type listener struct {
	p        *Provider
	tcp      *net.TCPListener
	requests chan *connID
	closing  chan struct{}
	wg       sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	halfDone *list.List // of *net.TCPConn, oldest first
}

var _ rdmacm.Listener = (*listener)(nil)

func newListener(p *Provider, tcp *net.TCPListener) *listener {
	l := &listener{
		p: p, tcp: tcp,
		requests: make(chan *connID, p.config.Backlog),
		closing:  make(chan struct{}),
		halfDone: list.New(),
	}
	l.wg.Go(l.accept)
	return l
}

func (l *listener) Addr() netip.AddrPort { return addrPort(l.tcp.Addr()) }

func (l *listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	select {
	case <-l.closing:
		return nil, verbs.ErrClosed
	default:
	}
	select {
	case id := <-l.requests:
		return id, nil
	case <-l.closing:
		return nil, verbs.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.closing)
	_ = l.tcp.Close()
	for e := l.halfDone.Front(); e != nil; e = e.Next() {
		_ = e.Value.(*net.TCPConn).Close()
	}
	l.mu.Unlock()
	l.wg.Wait()
	for {
		select {
		case id := <-l.requests:
			_ = id.Close()
		default:
			l.p.unuse()
			return nil
		}
	}
}

// accept runs until the listener is closed. Running out of descriptors must
// not end it: it goes on when there are some again.
func (l *listener) accept() {
	for {
		conn, err := l.tcp.AcceptTCP()
		if err == nil {
			if e := l.begin(conn); e != nil {
				l.wg.Go(func() { l.handshake(conn, e) })
			}
			continue
		}
		select {
		case <-l.closing:
			return
		case <-time.After(acceptRetry):
			l.p.config.Logger.Warn("softiwarp: accept failed", "listener", l.Addr(), "error", err)
		}
	}
}

// drop closes a connection whose request can't be served.
func (l *listener) drop(conn *net.TCPConn, err error) {
	l.note(conn, err)
	_ = conn.Close()
}

// note logs a request that can't be served.
func (l *listener) note(conn *net.TCPConn, err error) {
	l.p.config.Logger.Warn("softiwarp: connection request dropped", "listener", l.Addr(), "peer", conn.RemoteAddr(), "error", err)
}

// acceptRetry is the pause after a failed accept.
const acceptRetry = 50 * time.Millisecond

// begin counts a half-done handshake; nil when the listener is closed.
func (l *listener) begin(conn *net.TCPConn) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return nil
	}
	if l.halfDone.Len() >= l.p.config.MaxHandshakes {
		oldest := l.halfDone.Front()
		l.halfDone.Remove(oldest)
		_ = oldest.Value.(*net.TCPConn).Close()
	}
	return l.halfDone.PushBack(conn)
}

func (l *listener) end(e *list.Element) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halfDone.Remove(e)
}

// handshake reads a peer's request and queues it for GetRequest.
func (l *listener) handshake(conn *net.TCPConn, e *list.Element) {
	_ = conn.SetReadDeadline(time.Now().Add(l.p.config.HandshakeTimeout))
	frame, err := readFrame(conn, mpa.Request)
	l.end(e)
	if err == nil {
		_ = conn.SetReadDeadline(time.Time{})
		err = l.queue(conn, frame)
	}
	switch {
	case err == nil:
	case errors.Is(err, errBacklog): // the peer is to know that it may come again
		l.note(conn, err)
		l.p.refuse(conn, rejection(&frame, []byte(err.Error())))
	default:
		l.drop(conn, err)
	}
}

// queue hands a request to the consumer. On an error conn stays the caller's.
func (l *listener) queue(conn *net.TCPConn, frame mpa.Frame) error {
	if frame.Markers {
		_ = writeFrame(conn, rejection(&frame, nil))
		return errMarkers
	}
	if err := l.p.use(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.p.unuse()
		return verbs.ErrClosed
	}
	select {
	case l.requests <- newRequestID(l.p, conn, frame):
		return nil
	default:
		l.p.unuse()
		return errBacklog
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
