package forward

import (
	"log/slog"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// DefaultUnpooled is in force when Config leaves Unpooled nil, in bytes.
const DefaultUnpooled = 64 << 20

// Config is what a Forwarder is made with. Zero values give the defaults.
type Config struct {
	// Forward needs an address. A client that waits longer than DialTimeout is rejected.
	// CallTimeout also limits how far the upstream may fall behind rpctcp.Floor with calls. After
	// that the client's connection ends, so that the client repeats its calls on another.
	// CallbackTimeout limits how long a call of the upstream waits for the back channel,
	// its credits and the client's reply together. NFS servers with the option "secure"
	// require ReservedPort.
	spec.Forward
	// Unpooled bounds the memory for results for which the pool has none in time, and for
	// replies that grow beyond the transport's memory for their streams, in bytes. Forwarders
	// may share it. nil is DefaultUnpooled for this one.
	Unpooled *budget.Budget
	Logger   *slog.Logger // nil logs nothing
}

func (c Config) withDefaults() Config {
	c.Forward = spec.Filled(c.Forward)
	if c.Unpooled == nil {
		c.Unpooled = budget.New(DefaultUnpooled)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
