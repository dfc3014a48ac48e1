package rpctcp

import (
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Limits in force when Config leaves them 0.
const (
	DefaultMaxConnections = 256
	DefaultMaxCalls       = 64
	// DefaultMaxRecord is 1 MiB of data with room for the rest of a call.
	DefaultMaxRecord     = 1<<20 + 64<<10 + 4096
	DefaultMemoryLimit   = 128 << 20
	DefaultIdleTimeout   = 6 * time.Minute // Linux clients leave after 5
	DefaultRecordTimeout = 30 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
)

// Config is what a Server is made with. Zero values give the defaults.
type Config struct {
	// Handler serves the calls.
	Handler oncrpc.Handler
	Logger  *slog.Logger
	// MaxConnections bounds the connections; who comes over it is closed.
	MaxConnections int
	// MaxCalls bounds the calls of one connection that are being served or
	// whose replies are being sent. Who sends more is not read until one ends.
	MaxCalls int
	// MaxRecord is the most bytes of a call, and of one buffer of a reply.
	MaxRecord int
	// MemoryLimit bounds the bytes of all calls being read or served, again
	// of all replies' items, and again of all replies' streams, of which the
	// last may go over it by what the calls already being served answer.
	// Over it, calls wait.
	MemoryLimit int
	// IdleTimeout closes a connection that has had no call for so long.
	IdleTimeout time.Duration
	// RecordTimeout closes a connection on which a call takes longer than so
	// to arrive once it has begun.
	RecordTimeout time.Duration
	// WriteTimeout closes a connection whose peer does not take 1 MiB, or a
	// reply, in so long.
	WriteTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxCalls, DefaultMaxCalls)
	setDefault(&c.MaxRecord, DefaultMaxRecord)
	setDefault(&c.MemoryLimit, DefaultMemoryLimit)
	setDefault(&c.IdleTimeout, DefaultIdleTimeout)
	setDefault(&c.RecordTimeout, DefaultRecordTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
