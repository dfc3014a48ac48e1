package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/reload"
)

// reload follows the configuration file, and hangup, until stop is called,
// which returns when nothing is being reloaded any more.
func (d *daemon) reload(c *config.Config, load func() (*config.Config, error), drain time.Duration, hangup <-chan os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := reload.New(reload.Config{
		Running: c,
		Load: func() (*config.Config, error) {
			next, err := load()
			if err != nil {
				d.control.RecordReload(c.File, err)
			}
			return next, err
		},
		Settings: d.control,
		Began:    d.notify.Reloading,
		Ended:    d.notify.Ready,
		Apply:    func(_, next *config.Config) { d.apply(ctx, next, drain) },
		Waiting:  d.fileWaits,
		Logger:   d.log,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, hangup)
	}()
	return func() {
		cancel()
		<-done
	}
}

// apply has services, listeners and limits follow the file. What can't is
// told in a line each.
func (d *daemon) apply(ctx context.Context, next *config.Config, drain time.Duration) {
	err := d.reconfigure(ctx, next, drain)
	d.control.RecordReload(next.File, err)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			d.log.Error("a part of the configuration is not in force", "file", next.File, "error", strings.TrimSpace(line))
		}
	}
}
