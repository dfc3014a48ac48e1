package grpcapi

import (
	"context"
	"strings"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// actor is the client of a request, as the history names it.
func actor(ctx context.Context) history.Actor {
	id := auth.FromContext(ctx)
	return history.Actor{Name: id.Name, From: id.Origin}
}

// noteChanges tells the audit log what a change of settings did; nothing of a
// dry run.
func noteChanges(ctx context.Context, r *desired.Result, dryRun bool) {
	if dryRun {
		return
	}
	var before, after []string
	for _, c := range changes(&r.Step) {
		before = append(before, settingText(c, c.GetBefore()))
		after = append(after, settingText(c, c.GetAfter()))
	}
	audit.Note(ctx, strings.Join(before, " "), strings.Join(after, " "), r.Revision)
}

// settingText is a value as the audit log shows it, with its scope unless that
// is global.
func settingText(c *rdmadv1.SettingChange, value string) string {
	text := c.GetKey() + "=" + value
	if value == "" {
		text = c.GetKey() + " unset"
	}
	if c.GetScope() == "global" {
		return text
	}
	return c.GetScope() + ":" + text
}
