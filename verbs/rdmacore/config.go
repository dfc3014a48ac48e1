//go:build rdmacore && cgo

package rdmacore

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/verbs"
)

// Defaults of Config.
const (
	defaultRetryCount     = 7
	defaultMinRNRTimer    = 12 // 0.64 ms, InfiniBand specification table 45
	defaultResolveTimeout = 2 * time.Second
	defaultDrainTimeout   = 5 * time.Second
	defaultBacklog        = 1024
	maxRetryCount         = 7
	maxMinRNRTimer        = 31
	// longestBusyPoll bounds what a wait may cost a processor.
	longestBusyPoll = 10 * time.Millisecond
)

// Config says how a provider behaves. The zero value is ready to use.
type Config struct {
	// Device is the name of the only device to use, as ibv_devices prints
	// it; empty: all devices, and the first one that is up is
	// Provider.Device.
	Device string
	// BusyPoll is how long CQ.Wait looks for completions before it arms the
	// CQ and sleeps, at most 10 ms; 0 sleeps at once.
	BusyPoll time.Duration
	// RetryCount is how often a request is sent again when the peer does not
	// answer, RNRRetryCount when it has no Receive posted: 1 to 7, where 7
	// is for ever for the latter; 0 is 7. NoRNRRetry makes it none at all.
	// iWARP knows neither.
	RetryCount, RNRRetryCount int
	NoRNRRetry                bool
	// MinRNRTimer is the code of the time after which a peer may try again
	// when we had no Receive, 1 to 31; 0 is 12 (0.64 ms).
	MinRNRTimer int
	// ResolveTimeout bounds each of address and route resolution; 0 is 2 s.
	ResolveTimeout time.Duration
	// DrainTimeout bounds how long Disconnect waits for posted requests; 0
	// is 5 s.
	DrainTimeout time.Duration
	// Backlog bounds the requests waiting at a listener; 0 is 1024. More are
	// rejected. iw_cm of some kernels does not survive that, so it is large.
	Backlog int
	// Logger gets lines about devices and dropped requests; nil logs nothing.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	setDefault(&c.RetryCount, defaultRetryCount)
	setDefault(&c.RNRRetryCount, defaultRetryCount)
	setDefault(&c.MinRNRTimer, defaultMinRNRTimer)
	setDefault(&c.ResolveTimeout, defaultResolveTimeout)
	setDefault(&c.DrainTimeout, defaultDrainTimeout)
	setDefault(&c.Backlog, defaultBacklog)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.RetryCount < 0 || c.RetryCount > maxRetryCount || c.RNRRetryCount < 0 || c.RNRRetryCount > maxRetryCount:
		return c, fmt.Errorf("rdmacore: retry counts %d and %d: %w", c.RetryCount, c.RNRRetryCount, verbs.ErrInvalid)
	case c.MinRNRTimer < 0 || c.MinRNRTimer > maxMinRNRTimer:
		return c, fmt.Errorf("rdmacore: receiver-not-ready timer %d: %w", c.MinRNRTimer, verbs.ErrInvalid)
	case c.BusyPoll < 0 || c.BusyPoll > longestBusyPoll:
		return c, fmt.Errorf("rdmacore: busy poll of %v: %w", c.BusyPoll, verbs.ErrInvalid)
	case c.ResolveTimeout < time.Millisecond || c.DrainTimeout < 0 || c.Backlog < 0:
		return c, fmt.Errorf("rdmacore: limit out of range: %w", verbs.ErrInvalid)
	}
	if c.NoRNRRetry {
		c.RNRRetryCount = 0
	}
	return c, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
