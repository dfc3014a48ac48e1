//go:build rdmacore && cgo

package rdmacore

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Defaults of Config.
const (
	defaultResolveTimeout = 2 * time.Second
	defaultDrainTimeout   = 5 * time.Second
	defaultBacklog        = 1024
)

// Config configures a provider. The zero value is valid.
type Config struct {
	// Tuning holds the operator's settings. If RetryCount is 0, the defaults apply, except
	// for Device, AckTimeout, BusyPoll, KeepAlive and RegisterSinks.
	Tuning tuning.Settings
	// ResolveTimeout bounds each of address and route resolution; 0 is 2 s.
	ResolveTimeout time.Duration
	// DrainTimeout bounds how long Disconnect waits for posted requests; 0 is 5 s.
	DrainTimeout time.Duration
	// Backlog bounds the requests waiting at a listener; 0 is 1024. At the bound, further
	// requests wait in the kernel on InfiniBand and RoCE for a while (verbs/peers). Then, and
	// on iWARP, the oldest request of the peer that has the most is rejected. The default is
	// large because iw_cm of some kernels crashes after such a rejection.
	Backlog int
	// Logger receives lines about devices and dropped requests; nil logs nothing.
	Logger *slog.Logger

	roomTimeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if t := &c.Tuning; t.RetryCount == 0 {
		d := tuning.Default()
		d.Device, d.AckTimeout, d.BusyPoll, d.KeepAlive, d.RegisterSinks = t.Device, t.AckTimeout, t.BusyPoll, t.KeepAlive, t.RegisterSinks
		*t = d
	}
	c.ResolveTimeout = cmp.Or(c.ResolveTimeout, defaultResolveTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrainTimeout)
	c.Backlog = cmp.Or(c.Backlog, defaultBacklog)
	c.roomTimeout = cmp.Or(c.roomTimeout, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if err := c.Tuning.Check(); err != nil {
		return c, fmt.Errorf("rdmacore: %w: %w", verbs.ErrInvalid, err)
	}
	if c.ResolveTimeout < time.Millisecond || c.DrainTimeout < 0 || c.Backlog < 0 {
		return c, fmt.Errorf("rdmacore: limit out of range: %w", verbs.ErrInvalid)
	}
	return c, nil
}
