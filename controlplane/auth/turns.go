package auth

import "net"

// turns lets TLS handshakes compute one at a time, in the order in which they ask. Otherwise a
// burst of them would take all processors, and the calls of NFS clients would wait behind it.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

func (t turns) take()  { t <- struct{}{} }
func (t turns) leave() { <-t }

// handshaking is the connection of a handshake. The handshake has the turn, except while it
// reads, so that others go on while its client is silent. It does not wait when it writes: the
// little that it writes fits into the socket's buffer.
type handshaking struct {
	net.Conn
	turns turns // nil after the handshake
}

// NetConn returns the inner connection.
func (h *handshaking) NetConn() net.Conn { return h.Conn }

// Read implements net.Conn.
func (h *handshaking) Read(b []byte) (int, error) {
	if h.turns == nil {
		return h.Conn.Read(b)
	}
	h.turns.leave()
	defer h.turns.take()
	return h.Conn.Read(b)
}
