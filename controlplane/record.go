package controlplane

import (
	"errors"
	"slices"
	"strconv"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
)

// ownActions are the audit log's names of changes that rdmad makes by itself.
var ownActions = map[history.Kind]string{
	history.Reload:       "reload", // of the configuration file
	history.AutoRollback: "expire", // of a confirm window
	history.Fleet:        "fleet",  // an assignment by the fleet
}

// OpenAudit makes the control plane record every change in the audit log of a directory, see
// package audit. From then on it refuses a change that it cannot record. Call it before
// Settings.Open and Serve. Shutdown closes the log.
func (c *Controlplane) OpenAudit(dir string) error {
	l, err := audit.Open(audit.Config{Dir: dir, Logger: c.log})
	if err != nil {
		return err
	}
	own, err := c.Settings.Watch()
	if err != nil {
		l.Close()
		return err
	}
	c.audit = l
	c.server.Record(l)
	c.running.Go(func() { c.recordOwn(own) })
	return nil
}

// recordOwn records the revisions that rdmad makes by itself, until watchers
// end. They are made whether that works or not: the rollback of an unconfirmed
// change must not wait for the disk. If the log falls behind, the history has the rest.
func (c *Controlplane) recordOwn(w *desired.Watcher) {
	for {
		all(w, func(e *history.Entry) {
			if e.Revision > c.recorded && e.Status != history.Confirmed && e.Status != history.RolledBack { // else a window has ended
				c.recordRevision(e)
			}
			c.recorded = max(c.recorded, e.Revision)
		})
		if !errors.Is(w.Err(), watch.ErrSlow) {
			return
		}
		var err error
		w, err = c.Settings.Watch()
		c.recorded = c.recordSince(c.recorded)
		if err != nil {
			return
		}
	}
}

// recordSince records the revisions after the last one that was recorded, from the history. It returns the newest.
func (c *Controlplane) recordSince(last uint32) uint32 {
	for _, e := range slices.Backward(c.Settings.History(0, 0)) {
		if e.Revision <= last {
			continue
		}
		if e.Revision > last+1 {
			c.log.Error("audit log fell behind; what rdmad did by itself meanwhile is not recorded", "from_revision", last+1, "to_revision", e.Revision-1)
		}
		c.recordRevision(e)
		last = e.Revision
	}
	return last
}

// all passes all events of a watcher to see, also those that still wait when it ends.
func all(w *desired.Watcher, see func(*history.Entry)) {
	for {
		select {
		case e := <-w.Events():
			see(e)
		case <-w.Done():
			for len(w.Events()) > 0 {
				see(<-w.Events())
			}
			return
		}
	}
}

func (c *Controlplane) recordRevision(e *history.Entry) {
	action := ownActions[e.Kind]
	if action == "" {
		return // a client's, recorded with its request
	}
	before, after := e.Step.Texts()
	c.record(audit.Entry{
		Action: action, Request: strconv.Quote(e.Comment), Outcome: audit.OK,
		Before: before, After: after, Revision: e.Revision,
	})
}

// RecordReload records that a configuration file was read again. err is the reason why it, or a
// part of it, was refused; dataplane.ErrShutdown if the end of rdmad cut it off; or nil.
func (c *Controlplane) RecordReload(file string, err error) {
	e := audit.Entry{Action: ownActions[history.Reload], Request: strconv.Quote(file), Outcome: audit.OK}
	switch {
	case errors.Is(err, dataplane.ErrShutdown):
		e.Outcome, e.Reason = "CANCELLED", "rdmad ends"
	case err != nil:
		e.Outcome, e.Reason = "INVALID_ARGUMENT", err.Error()
	}
	c.record(e)
}

// AuditProblem returns the reason why the last change could not be recorded. It is nil if the
// change was recorded, or if nothing is recorded.
func (c *Controlplane) AuditProblem() error {
	if c.audit == nil {
		return nil
	}
	return c.audit.Problem()
}

// RetryAudit tries to record again if the last change could not be recorded.
func (c *Controlplane) RetryAudit() {
	if c.audit != nil {
		c.audit.Retry()
	}
}

func (c *Controlplane) record(e audit.Entry) {
	if c.audit == nil {
		return
	}
	e.Actor, e.Role, e.Origin = auth.Daemon, auth.Admin.String(), "itself"
	c.audit.Refused(e)
}
