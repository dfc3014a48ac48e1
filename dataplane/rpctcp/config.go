package rpctcp

import (
	"cmp"
	"log/slog"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
)

// The defaults of Config, and of the limits of its Places.
const (
	DefaultConnections        = 1024
	DefaultConnectionsPerPeer = 128
	DefaultIdle               = 6 * time.Minute // Linux clients disconnect after 5
	DefaultHalfOpen           = 30 * time.Second

	DefaultMaxCalls = 64
	// DefaultMaxRecord is 1 MiB of data with room for the rest of a call, in bytes.
	DefaultMaxRecord     = 1<<20 + 64<<10 + 4096
	DefaultMemoryLimit   = 128 << 20
	DefaultRecordTimeout = 30 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
)

// Config configures a Server. Zero values mean the defaults.
type Config struct {
	// Handler serves the calls.
	Handler oncrpc.Handler
	Logger  *slog.Logger
	// Places limits the connections, in total and per address, together with those of other
	// servers, and closes idle ones. A newcomer over a limit takes the place of the
	// connection that has been idle for longest. nil means no limit.
	Places *connlimit.Table
	// Clients, if not nil, counts what each client does.
	Clients *clients.Table
	// SlowCalls, if not nil, returns what finds the slow calls of a peer.
	SlowCalls func(peer netip.AddrPort) slow.Calls
	// MaxCalls limits the calls of one connection that are being served or whose replies
	// are being sent. At the limit, nothing more is read from the connection until a call
	// ends.
	MaxCalls int
	// MaxRecord is the largest call, and the largest buffer of a reply, in bytes.
	MaxRecord int
	// MemoryLimit limits, in bytes, the memory of all calls being read or served. The same
	// limit applies separately to all replies' items, and to all replies' streams. The
	// streams may exceed it by the answers of calls that are already being served. At the
	// limit, calls wait. Each connection has a share of MaxRecord, and one call of up to 64
	// KiB that never waits. While connections wait, the server ends the one that holds most
	// of those that are 5 s behind Floor.
	MemoryLimit int
	// RecordTimeout is how far a peer may be behind Floor with sending a call that it has
	// begun.
	RecordTimeout time.Duration
	// WriteTimeout is how far a peer may be behind with reading its replies: behind Floor,
	// or behind the rate at which it reads all of them in that time, whichever is higher.
	WriteTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Places == nil {
		c.Places = connlimit.New(time.Now(), connlimit.Config{})
	}
	c.MaxCalls = cmp.Or(c.MaxCalls, DefaultMaxCalls)
	c.MaxRecord = cmp.Or(c.MaxRecord, DefaultMaxRecord)
	c.MemoryLimit = cmp.Or(c.MemoryLimit, DefaultMemoryLimit)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, DefaultRecordTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	return c
}

// DefaultLimits replaces zeros in l with the defaults. HalfOpen is at most Idle.
func DefaultLimits(l connlimit.Limits) connlimit.Limits {
	l.Total = cmp.Or(l.Total, DefaultConnections)
	l.PerKey = cmp.Or(l.PerKey, DefaultConnectionsPerPeer)
	l.Idle = cmp.Or(l.Idle, DefaultIdle)
	l.HalfOpen = cmp.Or(l.HalfOpen, min(DefaultHalfOpen, l.Idle))
	return l
}
