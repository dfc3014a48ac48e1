package forward

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// DefaultUnpooled is in force when Config leaves Unpooled nil, in bytes.
const DefaultUnpooled = 64 << 20

// Config is what a Forwarder is made with. Zero values give the defaults, those
// of spec.Forward.
type Config struct {
	// Address is the upstream's host:port. It is required.
	Address string
	// DialTimeout is how long a client waits at most for its upstream connection. Then it
	// is rejected.
	DialTimeout time.Duration
	// CallTimeout is how long the upstream may take to answer a call, or to read a MiB of
	// calls. After that the client's connection ends, so that the client repeats its calls
	// on another.
	CallTimeout time.Duration
	// CallbackTimeout limits how long a call of the upstream waits for the back channel,
	// its credits and the client's reply together.
	CallbackTimeout time.Duration
	// ReservedPort connects from a port below 1024, which NFS servers with the option
	// "secure" require. It needs CAP_NET_BIND_SERVICE.
	ReservedPort bool
	// MaxRecord is the largest reply, in bytes.
	MaxRecord int
	// Unpooled is the memory for results for which the pool has none in time, and for
	// replies that grow beyond what the transport has for their streams, in bytes. Forwarders may share it. nil is DefaultUnpooled for this one.
	Unpooled *budget.Budget
	Logger   *slog.Logger // nil logs nothing
}

func (c Config) withDefaults() Config {
	def := spec.Filled(spec.Forward{})
	c.DialTimeout = cmp.Or(c.DialTimeout, def.DialTimeout)
	c.CallTimeout = cmp.Or(c.CallTimeout, def.CallTimeout)
	c.CallbackTimeout = cmp.Or(c.CallbackTimeout, def.CallbackTimeout)
	c.MaxRecord = cmp.Or(c.MaxRecord, int(def.MaxRecord))
	if c.Unpooled == nil {
		c.Unpooled = budget.New(DefaultUnpooled)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
