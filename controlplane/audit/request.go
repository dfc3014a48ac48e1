package audit

import "context"

// Request is a request that the log has told the beginning of.
type Request struct {
	log   *Log
	begun *Entry
	noted *noted
}

// Begin tells that a request begins, with who, from where and what. The
// request is not to be carried out when that fails. Its handler may call Note
// with the context. The caller calls Done once.
func (l *Log) Begin(ctx context.Context, e Entry) (context.Context, *Request, error) {
	e.Outcome, e.Request = Started, bounded(e.Request)
	if err := l.Append(&e); err != nil {
		return ctx, nil, err
	}
	ctx, n := withNote(ctx)
	return ctx, &Request{log: l, begun: &e, noted: n}, nil
}

// Done tells how the request ended: OK or a gRPC code, and why. When that
// can't be written now, it is written with the next entry; until then the
// request counts as started.
func (r *Request) Done(outcome, reason string) {
	e := *r.begun
	e.Of, e.Time = e.Sequence, r.log.cfg.Now().UTC()
	e.Outcome, e.Reason = outcome, bounded(reason)
	r.noted.fill(&e)
	if err := r.log.Append(&e); err != nil {
		r.log.owe(&e)
		r.log.cfg.Logger.Error("audit log can't be written", "error", err,
			"actor", e.Actor, "origin", e.Origin, "action", e.Action, "outcome", e.Outcome)
	}
}

// Refused records a request that is not carried out. It is refused whether
// this can be written or not.
func (l *Log) Refused(e Entry) {
	e.Request, e.Reason = bounded(e.Request), bounded(e.Reason)
	if err := l.Append(&e); err != nil {
		l.cfg.Logger.Error("audit log can't be written", "error", err,
			"actor", e.Actor, "origin", e.Origin, "action", e.Action, "outcome", e.Outcome)
	}
}

// owe keeps an entry to be written with the next one. There are never more
// than requests in progress: none begins while the log can't be written.
func (l *Log) owe(e *Entry) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.owed = append(l.owed, e)
}
