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
	// defaultMaxULPDU makes a full FPDU a little shorter than a TCP segment
	// over loopback (65483 bytes). A little longer costs a fifth more
	// processor time, for one more tiny segment with every system call.
	defaultMaxULPDU = ddp.UntaggedSize + 1022*64

	minULPDU = ddp.UntaggedSize + 64
)

// Config says how a provider behaves. The zero value is ready to use.
type Config struct {
	// CRC asks for CRC32C on every connection. A peer that asks for CRC32C always
	// gets it (RFC 5044 §7.1.1).
	CRC bool
	// MPARevision is what connecting starts with: 2 (the default; enhanced,
	// RFC 6581) or 1. Peers that connect are answered in their own revision.
	MPARevision int
	// ClientServer connects without asking for a peer-to-peer connection: the
	// passive side may then not send before the active side has (RFC 5044 §7.1.2).
	ClientServer bool
	// MaxULPDU is the largest ULPDU sent, in bytes, 82 to 65535; 0 is the
	// default, 65426. Whatever fits the length field is received.
	MaxULPDU int
	// HandshakeTimeout bounds how long a peer may take for its half of the
	// MPA exchange; 0 is 5 s.
	HandshakeTimeout time.Duration
	// DrainTimeout bounds how long Disconnect lets posted requests go out;
	// 0 is 5 s.
	DrainTimeout time.Duration
	// MaxHandshakes bounds the connections of one listener whose request has not
	// arrived completely. When there are that many, a new one replaces the oldest of
	// the peer that has the most of them (verbs/peers). 0 is 128.
	MaxHandshakes int
	// Backlog bounds the requests waiting for GetRequest; 0 is 128. When there are
	// that many, the oldest of the peer that has the most of them is rejected.
	Backlog int
	// Descriptors bounds the file descriptors of connections that the consumer does
	// not have yet (of one listener) or has closed. A small number lowers
	// MaxHandshakes and Backlog. 0 is no bound.
	Descriptors int
	// Logger gets a line for every peer that is dropped before the consumer sees it.
	// dataplane/loglimit has a handler that bounds such lines. Nil logs nothing.
	Logger *slog.Logger

	maxLingers int
}

// withDefaults fills in the defaults and checks ranges.
func (c Config) withDefaults() (Config, error) {
	c.MPARevision = cmp.Or(c.MPARevision, mpa.Revision2)
	c.MaxULPDU = cmp.Or(c.MaxULPDU, defaultMaxULPDU)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, defaultHandshakeTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.MaxHandshakes = cmp.Or(c.MaxHandshakes, defaultMaxHandshakes)
	c.Backlog = cmp.Or(c.Backlog, defaultBacklog)
	c.maxLingers = maxLingers
	if n := c.Descriptors; n > 0 {
		c.MaxHandshakes, c.Backlog, c.maxLingers = min(c.MaxHandshakes, max(n/2, 1)), min(c.Backlog, max(n/4, 1)), min(c.maxLingers, n/4)
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
