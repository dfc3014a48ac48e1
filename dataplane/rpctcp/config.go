package rpctcp

import (
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Limits in force when Config leaves them 0.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerPeer = 128
	DefaultIdle               = 6 * time.Minute // Linux clients disconnect after 5
	DefaultHalfOpen           = 30 * time.Second

	DefaultMaxCalls = 64
	// DefaultMaxRecord is 1 MiB of data with room for the rest of a call.
	DefaultMaxRecord     = 1<<20 + 64<<10 + 4096
	DefaultMemoryLimit   = 128 << 20
	DefaultRecordTimeout = 30 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
)

// Config is what a Server is made with. Zero values give the defaults.
type Config struct {
	// Handler serves the calls.
	Handler oncrpc.Handler
	Logger  *slog.Logger
	// Name appears in the reasons why a connection was closed or refused.
	Name string
	// Limits bound the connections, in all and per address, and their idle time. A
	// newcomer over a limit takes the place of the connection that has been idle
	// for longest. 0 means the default, or no limit if there is a Parent.
	Limits connlimit.Limits
	// Parent bounds the connections together with those of other servers, and
	// closes idle ones. Nil means none.
	Parent *connlimit.Table
	// MaxCalls bounds the calls of one connection that are being served or
	// whose replies are being sent. Who sends more is not read until one ends.
	MaxCalls int
	// MaxRecord is the most bytes of a call, and of one buffer of a reply.
	MaxRecord int
	// MemoryLimit bounds the bytes of all calls being read or served, again of all
	// replies' items, and again of all replies' streams, of which the last may go
	// over it by the answers of calls that are already being served. Over it, calls
	// wait. Each connection has a share of MaxRecord, and one call of up to 64 KiB
	// that never waits. If connections wait, rdmad cuts the one that holds most
	// among those that are 5 s behind Floor.
	MemoryLimit int
	// RecordTimeout is how far a peer may be behind Floor with sending a call that
	// it has begun.
	RecordTimeout time.Duration
	// WriteTimeout is how far a peer may be behind with reading its replies: behind
	// Floor, or behind the rate at which it reads all of them in that time,
	// whichever is higher.
	WriteTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Parent == nil {
		c.Limits = DefaultLimits(c.Limits)
	}
	setDefault(&c.MaxCalls, DefaultMaxCalls)
	setDefault(&c.MaxRecord, DefaultMaxRecord)
	setDefault(&c.MemoryLimit, DefaultMemoryLimit)
	setDefault(&c.RecordTimeout, DefaultRecordTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	return c
}

// DefaultLimits replaces zeros in l by the defaults. HalfOpen is at most Idle.
func DefaultLimits(l connlimit.Limits) connlimit.Limits {
	setDefault(&l.Total, DefaultConnections)
	setDefault(&l.PerKey, DefaultConnectionsPerPeer)
	setDefault(&l.Idle, DefaultIdle)
	setDefault(&l.HalfOpen, min(DefaultHalfOpen, l.Idle))
	return l
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
