package auth

import "net"

// turns has TLS handshakes compute one at a time, in the order in which they ask. A burst of
// them would else have a processor each, and a queue before everything that serves NFS
// clients.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

func (t turns) take()  { t <- struct{}{} }
func (t turns) leave() { <-t }

// handshaking is the connection of a handshake, which has the turn except while it reads: a
// client that says nothing keeps nobody waiting. What a handshake writes fits into the
// socket's buffer.
type handshaking struct {
	net.Conn
	turns turns // nil after the handshake
}

// NetConn returns the connection within.
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
