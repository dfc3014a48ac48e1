package grpcapi

import (
	"encoding/binary"
	"net"
	"sync"

	"golang.org/x/net/http2"

	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// inUse is an HTTP/2 connection of a server. It is in use, for its place, from when a
// request is whole, or the server begins to answer it, until the last byte of the reply is
// written: the handler begins later and ends sooner.
type inUse struct {
	net.Conn
	place *port.Conn

	read, written frames

	mu     sync.Mutex
	newest uint32          // stream
	use    map[uint32]bool // of each open stream; the server refuses more than maxStreams
}

func newInUse(c net.Conn, place *port.Conn) *inUse {
	u := &inUse{Conn: c, place: place, use: make(map[uint32]bool)}
	u.read = frames{have: frameHead, left: len(http2.ClientPreface), ended: u.asked}
	u.written = frames{ended: u.answered}
	return u
}

// Read implements net.Conn.
func (u *inUse) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	u.read.follow(b[:n])
	return n, err
}

// Write implements net.Conn.
func (u *inUse) Write(b []byte) (int, error) {
	n, err := u.Conn.Write(b)
	u.written.follow(b[:n])
	return n, err
}

// asked is called after each frame of the client.
func (u *inUse) asked(kind http2.FrameType, flags http2.Flags, stream uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if kind == http2.FrameHeaders && stream > u.newest {
		u.newest = stream
		u.use[stream] = false
	}
	switch {
	case kind == http2.FrameRSTStream:
		u.end(stream)
	case isLast(kind, flags):
		u.begin(stream)
	}
}

// answered is called after each frame of the server.
func (u *inUse) answered(kind http2.FrameType, flags http2.Flags, stream uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case kind == http2.FrameRSTStream || isLast(kind, flags):
		u.end(stream)
	case kind == http2.FrameHeaders:
		u.begin(stream)
	}
}

// isLast reports whether the sender of a frame ends its direction of the stream with it.
func isLast(kind http2.FrameType, flags http2.Flags) bool {
	return kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream) || kind == http2.FrameData && flags.Has(http2.FlagDataEndStream)
}

func (u *inUse) begin(stream uint32) {
	if begun, open := u.use[stream]; open && !begun {
		u.use[stream] = true
		u.place.Begin()
	}
}

func (u *inUse) end(stream uint32) {
	if u.use[stream] {
		u.place.End()
	}
	delete(u.use, stream)
}

// frameHead is the size of a frame's header (RFC 9113, section 4.1).
const frameHead = 9

// frames follows the frames of one direction of a connection.
type frames struct {
	ended func(kind http2.FrameType, flags http2.Flags, stream uint32)
	head  [frameHead]byte
	have  int // bytes of head
	left  int // bytes of the payload, after head
}

// follow takes the next bytes.
func (f *frames) follow(b []byte) {
	for len(b) > 0 {
		if f.have < frameHead {
			n := copy(f.head[f.have:], b)
			f.have, b = f.have+n, b[n:]
			if f.have < frameHead {
				return
			}
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
		n := min(f.left, len(b))
		f.left, b = f.left-n, b[n:]
		if f.left > 0 {
			return
		}
		f.have = 0
		f.ended(http2.FrameType(f.head[3]), http2.Flags(f.head[4]), binary.BigEndian.Uint32(f.head[5:])&^(1<<31))
	}
}
