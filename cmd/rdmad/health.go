package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/metrics"
)

// health updates the conditions of a daemon.
type health struct {
	d       *daemon
	known   *conditions.Registry
	reloads *metrics.Reloads
	prober  *conditions.Prober
	started atomic.Bool
	keeping sync.Mutex // serializes changes of the checks

	mu      sync.Mutex
	seen    map[string]bool      // devices
	expires map[string]time.Time // certificates; zero if it is not known
}

// newHealth makes the conditions that are known in memory. start adds those of files and
// peers.
func newHealth(d *daemon, c *config.Config) *health {
	h := &health{d: d, known: conditions.NewRegistry(), seen: make(map[string]bool), expires: make(map[string]time.Time), reloads: metrics.NewReloads(time.Now())}
	h.prober = conditions.NewProber(h.known, d.log)
	manager.ReportConditions(h.known, d.manager.API)
	h.known.Ask(h.own)
	if c.File != "" {
		h.known.Set(conditions.Finding{Reason: conditions.ReloadLoaded, Name: reloadName, Message: c.File})
	}
	return h
}

// reloadName is the name of the only condition of kind reload.
const reloadName = "configuration"

// start begins to check files and peers.
func (h *health) start() {
	h.started.Store(true)
	h.follow()
}

func (h *health) close() { h.prober.Close() }

// follow updates the checks to the current services and connectors. It also looks for RDMA devices: one that hangs must keep
// no change waiting for long.
func (h *health) follow() {
	if !h.started.Load() {
		return
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		h.keeping.Lock()
		defer h.keeping.Unlock()
		h.prober.Keep(h.checks())
	}()
	within(kept)
}

// refused records why a configuration file was not applied.
func (h *health) refused(err error) {
	h.reloads.Record(time.Now(), err)
	reason := conditions.ReloadRefused
	switch {
	case errors.As(err, new(*desired.PendingError)):
		reason = conditions.ReloadWaits
	case errors.As(err, new(*reload.OutsideError)):
		reason = conditions.ReloadBlocked
	}
	h.known.Set(conditions.Finding{Name: reloadName, Reason: reason, Message: config.OneLine(err)})
}

// reloaded records that a file was applied, and the keys that wait for a restart.
func (h *health) reloaded(file string, waits []string) {
	h.reloads.Record(time.Now(), nil)
	if len(waits) > 0 {
		h.known.Set(conditions.Finding{Name: reloadName, Reason: conditions.ReloadRestart, Message: file + ": " + strings.Join(waits, ", ")})
		return
	}
	h.known.Set(conditions.Finding{Name: reloadName, Reason: conditions.ReloadLoaded, Message: file})
}

// report calls say with a line for each change, until ctx ends.
func (h *health) report(ctx context.Context, say func(string)) {
	w := h.known.Watch()
	defer w.Close()
	last := ""
	for w.Next(ctx.Done()) {
		if text := summary(h.known.List()); text != last {
			say(text)
			last = text
		}
	}
}

// summary returns the conditions in one line.
func summary(all conditions.List) string {
	bad := all.NotOK()
	if len(bad) == 0 {
		return fmt.Sprintf("healthy: %d conditions are OK", len(all))
	}
	return fmt.Sprintf("%d of %d conditions are not OK: %s", len(bad), len(all), strings.ReplaceAll(bad[0].String(), "\n", " "))
}
