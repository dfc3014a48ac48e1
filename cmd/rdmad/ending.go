package main

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// endTimeout is how long the end may take after the drain. Whatever the end waits for has a shorter limit, except what
// hangs in a file system or a disk. Tests change it.
var endTimeout = 30 * time.Second

// inTime returns the error of work, which ends when ctx has ended. If it has not by limit later, inTime calls giveUp,
// which may hang, too, and returns without work.
func inTime(ctx context.Context, limit time.Duration, work func() error, giveUp func()) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
	}
	gaveUp := make(chan struct{})
	go func() {
		defer close(gaveUp)
		giveUp()
	}()
	select {
	case <-gaveUp:
	case <-time.After(2 * closeTimeout):
	}
	return &servingError{errors.New("something hangs")}
}

// giveUp logs what hangs, and ends what can still end in order. Nothing that rdmad has acknowledged is lost: it is on the
// disk by then. A daemon that is not up yet is nil.
func (d *daemon) giveUp(log *slog.Logger) {
	if d == nil {
		log.Error("ending at once: something hangs", "waits_for", starting)
		return
	}
	log.Error("ending at once: something hangs", "waits_for", d.waitsFor.Load())
	for _, c := range d.data.Connections() {
		log.Error("connection does not end", "conn", c.ID, "listener", c.Listener, "server", c.Service, "peer", c.PeerPort.String(), "calls", c.InFlight)
	}
	d.services.logHanging()
	if d.metricsOn != nil {
		d.metricsOn.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.control.Shutdown(ctx) }()
	storing := false
	select {
	case err := <-ended:
		if err != nil {
			log.Warn("control plane cut off", "error", err) // a request waits for what hangs; settings and audit log are closed
		}
	case <-time.After(closeTimeout * 5 / 4): // settings or the audit log are being stored
		storing = true
	}
	if storing || d.manager.Changing() {
		log.Error("the state stays locked until a change that hangs has ended") // the kernel may finish its write at any time
		return
	}
	d.state.close() // the kernel may keep a process that hangs, and its locks
}
