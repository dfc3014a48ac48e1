package grpcapi

import (
	"context"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
)

// actor is the client of a request, as the history names it.
func actor(ctx context.Context) history.Actor {
	id := auth.Peer(ctx)
	return history.Actor{Name: id.Name, From: id.Origin}
}

// noteChanges tells the audit log what a change of settings did; nothing of a
// dry run, or where there was nothing to change.
func noteChanges(ctx context.Context, r *desired.Result, dryRun bool) {
	if dryRun || r.Unchanged {
		return
	}
	before, after := r.Step.Texts()
	audit.Note(ctx, before, after, r.Revision)
}
