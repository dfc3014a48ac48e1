package softiwarp

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

// Defaults of Config.
const (
	defaultHandshakeTimeout = 5 * time.Second
	defaultDrainTimeout     = 5 * time.Second
	defaultMaxHandshakes    = 128
	defaultBacklog          = 128
	// defaultMaxULPDU makes a full FPDU a little shorter than a TCP segment over
	// loopback (65483 bytes). A slightly longer FPDU costs a fifth more processor
	// time, because every system call then sends one more tiny segment.
	defaultMaxULPDU = ddp.UntaggedSize + 1022*64

	minULPDU = ddp.UntaggedSize + 64
)

// Config configures a provider. The zero value is valid.
type Config struct {
	// CRC asks for CRC32C on every connection. A peer that asks for CRC32C always
	// gets it (RFC 5044 §7.1.1).
	CRC bool
	// MPARevision is the MPA revision of connection requests: 2 (the default; enhanced,
	// RFC 6581) or 1. A listener answers each peer in the peer's own revision.
	MPARevision int
	// ClientServer requests connections that are not peer-to-peer: the passive side
	// then may not send before the active side has sent (RFC 5044 §7.1.2).
	ClientServer bool
	// MaxULPDU is the largest ULPDU sent, in bytes, 82 to 65535; 0 is the default,
	// 65426. Received ULPDUs may have any length that the length field can hold.
	MaxULPDU int
	// HandshakeTimeout bounds how long the peer may take for its half of the MPA
	// exchange; 0 is 5 s.
	HandshakeTimeout time.Duration
	// DrainTimeout bounds how long Disconnect waits for posted requests to complete;
	// 0 is 5 s.
	DrainTimeout time.Duration
	// MaxHandshakes bounds the connections of one listener whose request has not
	// arrived completely. At the bound, a new connection replaces the oldest one of
	// the peer that has the most (verbs/peers). 0 is 128.
	MaxHandshakes int
	// Backlog bounds the requests waiting for GetRequest; 0 is 128. At the bound, the
	// oldest request of the peer that has the most is rejected. Before that, if each peer has few,
	// further connections wait in the kernel until GetRequest takes one, for a second at most.
	Backlog int
	// Descriptors bounds the file descriptors of two kinds of connections: those of
	// one listener that the consumer does not have yet, and those that the consumer
	// has closed. A small number lowers MaxHandshakes and Backlog. 0 is no bound.
	Descriptors int
	// Logger receives a line for every peer that is dropped before the consumer sees
	// it. dataplane/loglimit has a handler that bounds such lines. Nil logs nothing.
	Logger *slog.Logger

	maxLingers, maxUnread      int
	lingerTimeout, roomTimeout time.Duration
}

// withDefaults fills in the defaults and checks ranges.
func (c Config) withDefaults() (Config, error) {
	c.MPARevision = cmp.Or(c.MPARevision, mpa.Revision2)
	c.MaxULPDU = cmp.Or(c.MaxULPDU, defaultMaxULPDU)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, defaultHandshakeTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.MaxHandshakes = cmp.Or(c.MaxHandshakes, defaultMaxHandshakes)
	c.Backlog = cmp.Or(c.Backlog, defaultBacklog)
	c.maxLingers, c.maxUnread = maxLingers, cmp.Or(c.maxUnread, maxUnread)
	c.lingerTimeout = cmp.Or(c.lingerTimeout, lingerTimeout)
	c.roomTimeout = cmp.Or(c.roomTimeout, time.Second)
	if n := c.Descriptors; n > 0 {
		half, quarter := max(n/2, 1), max(n/4, 1)
		c.MaxHandshakes, c.Backlog, c.maxLingers = min(c.MaxHandshakes, half), min(c.Backlog, quarter), min(c.maxLingers, quarter)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	switch {
	case c.MPARevision != mpa.Revision1 && c.MPARevision != mpa.Revision2:
		return c, fmt.Errorf("softiwarp: MPA revision %d: %w", c.MPARevision, verbs.ErrInvalid)
	case c.MaxULPDU < minULPDU || c.MaxULPDU > mpa.MaxULPDU:
		return c, fmt.Errorf("softiwarp: ULPDU of %d bytes: %w", c.MaxULPDU, verbs.ErrInvalid)
	case c.HandshakeTimeout < 0 || c.DrainTimeout < 0 || c.MaxHandshakes < 0 || c.Backlog < 0 || c.Descriptors < 0:
		return c, fmt.Errorf("softiwarp: negative limit: %w", verbs.ErrInvalid)
	}
	return c, nil
}
