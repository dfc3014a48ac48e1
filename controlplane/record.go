package controlplane

import (
	"errors"
	"strconv"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/watch"
)

// The audit log's names of changes that rdmad makes by itself.
const (
	actionReload = "reload" // of the configuration file
	actionExpire = "expire" // of a confirm window
	actionFleet  = "fleet"  // an assignment by the fleet
)

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
// change must not wait for the disk.
func (c *Controlplane) recordOwn(w *desired.Watcher) {
	defer w.Close()
	for {
		select {
		case e := <-w.Events():
			c.recordRevision(e)
		case <-w.Done():
			for {
				select {
				case e := <-w.Events():
					c.recordRevision(e)
				default:
					if err := w.Err(); errors.Is(err, watch.ErrSlow) {
						c.log.Error("audit log fell behind; what rdmad does by itself is no longer recorded")
					}
					return
				}
			}
		}
	}
}

func (c *Controlplane) recordRevision(e *history.Entry) {
	if e.Status == history.Confirmed || e.Status == history.RolledBack {
		return // its window has ended; it was recorded when it was made
	}
	var action string
	switch e.Kind {
	case history.Reload:
		action = actionReload
	case history.Fleet:
		action = actionFleet
	case history.AutoRollback:
		action = actionExpire
	default:
		return // a client's, recorded with its request
	}
	before, after := e.Step.Texts()
	c.record(audit.Entry{
		Action: action, Request: strconv.Quote(e.Comment), Outcome: audit.OK,
		Before: before, After: after, Revision: e.Revision,
	})
}

// RecordReload records that a configuration file was read again. err is the reason why it, or a
// part of it, was refused, or nil.
func (c *Controlplane) RecordReload(file string, err error) {
	e := audit.Entry{Action: actionReload, Request: strconv.Quote(file), Outcome: audit.OK}
	if err != nil {
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
