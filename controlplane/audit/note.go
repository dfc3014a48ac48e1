package audit

import (
	"context"
	"sync"
)

// noted is what a request's handler says about what it did.
type noted struct {
	mu            sync.Mutex
	before, after string
	revision      uint32
}

type noteKey struct{}

// withNote is ctx with room for a Note.
func withNote(ctx context.Context) (context.Context, *noted) {
	n := new(noted)
	return context.WithValue(ctx, noteKey{}, n), n
}

// Note gives the audit log what the request of ctx changed: the state before
// and after (settings as KEY=VALUE, or what a listener was), and the revision
// of the settings that it made, 0 for none. The last note of a request counts;
// without an audit log it does nothing. Any goroutine may call it until the
// request is answered.
func Note(ctx context.Context, before, after string, revision uint32) {
	n, ok := ctx.Value(noteKey{}).(*noted)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.before, n.after, n.revision = before, after, revision
}

func (n *noted) fill(e *Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.Before, e.After, e.Revision = Bounded(n.before), Bounded(n.after), n.revision
}
