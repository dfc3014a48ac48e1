package softiwarp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/peers"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// listener accepts TCP connections and reads their MPA requests. Each request that is not there yet
// has a goroutine. The incomplete handshakes and the requests that the consumer has not fetched are
// bounded. Beyond a bound, the oldest one of the peer that has the most ends. So a flood
// neither stops the listener nor affects other peers.
type listener struct {
	p        *Provider
	tcp      *net.TCPListener
	requests *peers.Queue[*connID]
	closing  chan struct{}
	wg       sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	halfDone *peers.List[*net.TCPConn]
}

var _ rdmacm.OnTCP = (*listener)(nil)

func newListener(p *Provider, tcp *net.TCPListener) *listener {
	deferAccept(tcp)
	l := &listener{
		p: p, tcp: tcp,
		requests: peers.NewQueue[*connID](p.config.Backlog),
		closing:  make(chan struct{}),
		halfDone: peers.NewList[*net.TCPConn](p.config.MaxHandshakes),
	}
	l.wg.Go(l.accept)
	return l
}

// deferAccept leaves a connection to the kernel until its first bytes have come, for a second at
// most. So clients that are far away take no place while their requests are on their way, and
// accept finds the request. Without the option, requests arrive later, and nothing else changes.
func deferAccept(tcp *net.TCPListener) {
	onSocket(tcp, func(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 1) })
}

// onSocket calls f with a socket, unless it is closed.
func onSocket(socket syscall.Conn, f func(fd int)) {
	if raw, err := socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

func (l *listener) Addr() netip.AddrPort { return tcpaddr.Of(l.tcp.Addr()) }

// Socket implements rdmacm.OnTCP.
func (l *listener) Socket() net.Listener { return l.tcp }

// GetRequest implements rdmacm.Listener. It drops requests of peers that have given up meanwhile:
// when requests come faster than they are answered, peers that wait are otherwise behind these.
func (l *listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	for {
		id, err := l.requests.Get(ctx)
		if err != nil {
			return nil, err
		}
		if !gone(id.conn) {
			return id, nil
		}
		l.note(id.conn.RemoteAddr(), errGone)
		_ = id.Close()
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
	for conn, ok := l.halfDone.Next(); ok; conn, ok = l.halfDone.Next() {
		_ = conn.Close()
	}
	l.mu.Unlock()
	left := l.requests.Close()
	l.wg.Wait()
	for _, id := range left {
		_ = id.Close()
	}
	l.p.users.Unuse()
	return nil
}

// accept runs until the listener is closed. After an error, for example when descriptors
// run out, it tries again after a pause.
func (l *listener) accept() {
	for {
		l.requests.AwaitRoom(l.p.config.roomTimeout)
		conn, err := l.tcp.AcceptTCP()
		if err == nil {
			if arrived(conn) {
				frame, err := readFrame(conn, mpa.Request)
				l.conclude(conn, frame, err)
			} else if half := l.begin(conn); half != nil {
				l.wg.Go(func() { l.handshake(conn, half) })
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

// note logs a connection request that is dropped.
func (l *listener) note(peer net.Addr, err error) {
	l.p.config.Logger.Warn("softiwarp: connection request dropped", "listener", l.Addr(), "peer", peer, "error", err)
}

// acceptRetry is the pause after a failed accept.
const acceptRetry = 50 * time.Millisecond

// begin counts an incomplete handshake. It returns nil when the listener is closed.
func (l *listener) begin(conn *net.TCPConn) *peers.Item[*net.TCPConn] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return nil
	}
	half, lost := l.halfDone.Add(tcpaddr.Of(conn.RemoteAddr()).Addr(), conn)
	if lost != nil {
		_ = lost.Value.Close() // its goroutine's read then fails
	}
	return half
}

// end stops counting an incomplete handshake. An error says why the connection was closed
// in the meantime.
func (l *listener) end(half *peers.Item[*net.TCPConn]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.halfDone.Remove(half):
		return nil
	case l.closed:
		return verbs.ErrClosed
	}
	return errCrowded
}

// arrived reports whether a peer's request can be read without waiting.
func arrived(conn *net.TCPConn) (whole bool) {
	onSocket(conn, func(fd int) {
		b := make([]byte, mpa.FrameHeaderSize)
		if n, _, err := unix.Recvfrom(fd, b, unix.MSG_PEEK|unix.MSG_DONTWAIT); err != nil || n < len(b) {
			return
		}
		size, err := mpa.FrameSize(mpa.Request, b)
		n, _ := unix.IoctlGetInt(fd, unix.SIOCINQ)
		whole = err != nil || n >= size
	})
	return whole
}

// gone reports whether a peer has closed its side, or reset the connection.
func gone(conn *net.TCPConn) bool {
	n := 1
	onSocket(conn, func(fd int) {
		n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, 0)
	})
	return n > 0
}

// handshake waits for a peer's request.
func (l *listener) handshake(conn *net.TCPConn, half *peers.Item[*net.TCPConn]) {
	_ = conn.SetReadDeadline(time.Now().Add(l.p.config.HandshakeTimeout))
	frame, err := readFrame(conn, mpa.Request)
	if closed := l.end(half); closed != nil {
		err = closed
	}
	_ = conn.SetReadDeadline(time.Time{})
	l.conclude(conn, frame, err)
}

// conclude queues a request for GetRequest, or closes its connection.
func (l *listener) conclude(conn *net.TCPConn, frame mpa.Frame, err error) {
	if err == nil {
		err = l.queue(conn, frame)
	}
	if err != nil {
		l.note(conn.RemoteAddr(), err)
		_ = conn.Close()
	}
}

// queue gives a request to the consumer. On an error the caller keeps conn.
func (l *listener) queue(conn *net.TCPConn, frame mpa.Frame) error {
	if frame.Markers {
		_ = writeFrame(conn, rejection(&frame, nil))
		return errMarkers
	}
	if err := l.p.users.Use(); err != nil {
		return err
	}
	id := newRequestID(l.p, conn, frame)
	lost, err := l.requests.Put(id.RemoteAddr().Addr(), id)
	if err != nil {
		l.p.users.Unuse()
		return err
	}
	if lost != nil {
		l.turnAway(lost.Value)
	}
	return nil
}

// turnAway rejects a request for which there is no room. The rejection contains the
// reason, and the peer may try again.
func (l *listener) turnAway(id *connID) {
	l.note(net.TCPAddrFromAddrPort(id.RemoteAddr()), errCrowded)
	_ = id.Reject(context.Background(), []byte(errCrowded.Error()))
	_ = id.Close()
}
