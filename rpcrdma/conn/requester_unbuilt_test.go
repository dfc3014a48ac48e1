package conn

import (
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// TestEndsBeforeBuild: a call that ends between Launch and Build completes only after
// Fenced, so that its message stays until it is posted. The caller may give it up, and a
// hostile peer may answer an XID that it guessed.
func TestEndsBeforeBuild(t *testing.T) {
	for name, end := range map[string]func(*Requester, *Outgoing) []Action{
		"given up": func(q *Requester, o *Outgoing) []Action { return q.Cancel(o, nil) },
		"answered": func(q *Requester, o *Outgoing) []Action {
			h := rpcrdma1.Header{XID: o.XID, Version: 1, Credits: 1}
			return q.Receive(0, oncrpc.AppendAcceptedReply(h.Append(nil), o.XID), Invalidation{}, nil)
		},
		"refused": func(q *Requester, o *Outgoing) []Action {
			h := rpcrdma1.Header{XID: o.XID, Version: 1, Credits: 1, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}
			return q.Receive(0, h.Append(nil), Invalidation{}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.Default()
			q := NewRequester(RequesterConfig{Receive: 4096, MaxReceives: 100, Version: 1, Settings: &s})
			q.Connected(4096, 4096)
			post(q, q.Start(nil))
			o := &Outgoing{StreamLen: 40, MaxReply: 100}
			must(t, q.Plan(o))
			if now, err := q.Begin(o); !now || err != nil {
				t.Fatal(now, err)
			}
			if _, ok := q.Launch(o, nil); !ok {
				t.Fatal("not launched")
			}
			acts := end(q, o)
			if !slices.Contains(acts, Action(Fence{Out: o})) || slices.Contains(acts, Action(Complete{Out: o})) {
				t.Fatalf("before Build: %v", acts)
			}
			o.Build()
			if acts = q.Fenced(o, nil); !slices.Contains(acts, Action(Complete{Out: o})) {
				t.Errorf("after Fenced: %v", acts)
			}
			if (name == "answered") != (o.Err == nil) || (name == "given up") != errors.Is(o.Err, ErrCanceled) {
				t.Errorf("outcome %v", o.Err)
			}
		})
	}
}
