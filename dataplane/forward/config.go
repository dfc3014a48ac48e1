package forward

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
)

// Values in force when a Config leaves them 0.
const (
	DefaultDialTimeout     = 5 * time.Second
	DefaultCallTimeout     = 2 * time.Minute
	DefaultCallbackTimeout = 30 * time.Second
	DefaultMaxRecord       = 4 << 20
	DefaultUnpooled        = 64 << 20
)

// Config is what a Forwarder is made with. Zero values give the defaults.
type Config struct {
	// Address of the upstream, host:port; needed.
	Address string
	// DialTimeout is how long a client waits at most for its upstream
	// connection, before it is rejected.
	DialTimeout time.Duration
	// CallTimeout is how long the upstream may take to answer a call, or to
	// take a MiB of calls. Then the client's connection ends, so that it makes
	// its calls again on another.
	CallTimeout time.Duration
	// CallbackTimeout is how long a call of the upstream waits for the back
	// channel, its credits and the client's reply together.
	CallbackTimeout time.Duration
	// ReservedPort connects from a port below 1024, as NFS servers with the
	// option "secure" want. It takes CAP_NET_BIND_SERVICE.
	ReservedPort bool
	// MaxRecord is the most bytes of a reply.
	MaxRecord int
	// Unpooled is the memory for results for which the pool has none in time, in
	// bytes. Forwarders may share it. nil is DefaultUnpooled for this one.
	Unpooled *budget.Budget
	Logger   *slog.Logger // nil logs nothing
}

func (c Config) withDefaults() Config {
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.CallTimeout, DefaultCallTimeout)
	setDefault(&c.CallbackTimeout, DefaultCallbackTimeout)
	setDefault(&c.MaxRecord, DefaultMaxRecord)
	if c.Unpooled == nil {
		c.Unpooled = budget.New(DefaultUnpooled)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Ranges of a Config's values.
const (
	MinDialTimeout     = 100 * time.Millisecond
	MaxDialTimeout     = 10 * time.Second // a client's handshake takes no longer
	MinCallTimeout     = time.Second
	MaxCallTimeout     = time.Hour
	MinCallbackTimeout = 100 * time.Millisecond
	MaxCallbackTimeout = 10 * time.Minute
	MinMaxRecord       = 64 << 10
	MaxMaxRecord       = 64 << 20
)

// ConfigError is a value of a Config that is out of range.
type ConfigError struct {
	Key string // as in the configuration file
	Msg string
}

func (e *ConfigError) Error() string { return e.Key + ": " + e.Msg }

// Check says whether all values are in range, or 0 for the default; the error
// is a *ConfigError. The address is not looked at.
func (c *Config) Check() error {
	for _, t := range []struct {
		key              string
		value, low, high time.Duration
	}{
		{"dial_timeout", c.DialTimeout, MinDialTimeout, MaxDialTimeout},
		{"call_timeout", c.CallTimeout, MinCallTimeout, MaxCallTimeout},
		{"callback_timeout", c.CallbackTimeout, MinCallbackTimeout, MaxCallbackTimeout},
	} {
		if t.value != 0 && (t.value < t.low || t.value > t.high) {
			return &ConfigError{t.key, fmt.Sprintf("%v is out of range %v..%v", t.value, t.low, t.high)}
		}
	}
	if n := c.MaxRecord; n != 0 && (n < MinMaxRecord || n > MaxMaxRecord) {
		return &ConfigError{"max_record", fmt.Sprintf("%d is out of range %d..%d bytes", n, MinMaxRecord, MaxMaxRecord)}
	}
	return nil
}
