package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// side is the state that both roles have: their own settings, and the peer's announcements.
type side struct {
	settings settings.Settings
	chars    characteristics.State
	padding  padding
	peer     Configuration // without Align, which padding has
	unread   bool          // see NotRead
}

// start stores the first settings. receive is the size of the first receives, in bytes.
func (s *side) start(now *settings.Settings, receive uint32) {
	s.settings = *now
	s.chars.Start(characteristicsOf(now), receive)
	s.padding.set(now)
}

func (s *side) set(now *settings.Settings) {
	s.settings = *now
	s.chars.Apply(characteristicsOf(now))
	s.padding.set(now)
}

// NotRead is the event that the connection, which is up, allows the peer no RDMA Reads: it
// offered none. A reply that the peer would have to read then gets an error, and a call fails
// with ErrNoReads.
func (s *side) NotRead() { s.unread = true }

// Characteristics returns the characteristics of the peer and ours.
func (s *side) Characteristics() Characteristics { return s.chars.Info() }

// ReceiveSize returns the size of our receives that the peer may rely on, in bytes.
func (s *side) ReceiveSize() uint32 { return s.chars.Receive }

// Told is the event that the message of a Tell action was sent.
func (s *side) Told() { s.chars.Unsent-- }

// Padding describes the use of RDMA_MSGP on this connection.
func (s *side) Padding() Padding { return s.padding.state() }

// Configuration returns what the peer announced. Only a server announces an alignment.
func (s *side) Configuration() Configuration {
	c := s.peer
	c.Align = s.padding.align
	return c
}
