package audit

import "context"

// Request is a request whose beginning is in the log.
type Request struct {
	log   *Log
	begun *Entry
	noted *noted
}

// Begin records that a request begins, with its actor, origin and action. If
// Begin fails the request must not be carried out. Its handler may call Note
// with the context. The caller calls Done once.
func (l *Log) Begin(ctx context.Context, e Entry) (context.Context, *Request, error) {
	e.Outcome, e.Request = Started, Bounded(e.Request)
	if err := l.Append(&e); err != nil {
		return ctx, nil, err
	}
	ctx, n := withNote(ctx)
	return ctx, &Request{log: l, begun: &e, noted: n}, nil
}

// Done records how the request ended: OK or a gRPC code, and the reason. If this entry cannot
// be written now, it is written with the next one, or by Close. Until then the request counts as started.
func (r *Request) Done(outcome, reason string) {
	e := *r.begun
	e.Of, e.Time = e.Sequence, r.log.cfg.Now().UTC()
	e.Outcome, e.Reason = outcome, Bounded(reason)
	r.noted.fill(&e)
	r.log.owe(&e) // before it fails: then Retry may succeed at once
	r.log.report(r.log.append(), &e)
}

// report logs why an entry could not be written. The request of the entry does not depend on it.
func (l *Log) report(err error, e *Entry) {
	if err != nil {
		l.cfg.Logger.Error("audit log can't be written", "error", err,
			"actor", e.Actor, "origin", e.Origin, "action", e.Action, "outcome", e.Outcome)
	}
}

// owe keeps an entry until it is written. There are never more
// than requests in progress: none begins while the log can't be written.
func (l *Log) owe(e *Entry) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.owed = append(l.owed, e)
}
