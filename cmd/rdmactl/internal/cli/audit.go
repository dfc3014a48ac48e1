package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newAudit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who changed what, newest first",
		Long: `Print the audit log, newest first: all requests to change something, carried out
or refused, and the changes that rdmad made by itself. JSON and YAML have the
complete requests. You need the role admin.`,
		Example: `  rdmactl audit --since 24h
  rdmactl audit --since 2026-11-20 --actor alice --limit 0 -o json`,
	}
	since := cmd.Flags().String("since", "", "only entries since a time (2026-11-20T09:30:00Z), a day, or a duration before now (24h)")
	actor := cmd.Flags().String("actor", "", "only entries of this actor, as named by status and the log")
	limit := limitFlag(cmd, "entries")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req := &rdmadv1.ListAuditRequest{Actor: *actor, PageSize: mostOfPage}
		if *since != "" {
			t, err := parseSince(*since, time.Now())
			if err != nil {
				return err
			}
			req.Since = timestamppb.New(t)
		}
		return showList(cmd.Context(), a, api.ListAudit, req, *limit, auditTable)
	}
	return cmd
}

// parseSince reads a moment, in local time where no zone is given.
func parseSince(s string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--since %q is not a time such as 2026-11-20T09:30:00Z, 2026-11-20 or 24h", s)
}

func auditTable(res *rdmadv1.ListAuditResponse) *output.Table {
	return output.Things(res.GetEntries(), []output.Field[*rdmadv1.AuditEntry]{
		{Name: "TIME", Text: auditTime},
		{Name: "WHO", Min: 8, Text: (*rdmadv1.AuditEntry).GetActor},
		{Name: "ROLE", Drop: 2, Text: func(e *rdmadv1.AuditEntry) string { return role(e.GetRole()) }},
		{Name: "FROM", Drop: 3, Text: (*rdmadv1.AuditEntry).GetOrigin},
		{Name: "WHAT", Text: auditAction},
		{Name: "OUTCOME", Cell: func(e *rdmadv1.AuditEntry) output.Cell {
			return output.Cell{Text: e.GetOutcome(), Colour: either(e.GetOutcome() == "OK", output.Green, output.Red)}
		}},
		{Name: "REVISION", Right: true, Drop: 1, Text: func(e *rdmadv1.AuditEntry) string { return number(e.GetRevision()) }},
		{Name: "CHANGE", Min: 20, Text: auditChange},
	})
}

func auditTime(e *rdmadv1.AuditEntry) string { return clock(e.GetTime()) }

// auditAction is the method without its service.
func auditAction(e *rdmadv1.AuditEntry) string {
	return e.GetAction()[strings.LastIndexByte(e.GetAction(), '/')+1:]
}

// auditChange is what changed, or why nothing did.
func auditChange(e *rdmadv1.AuditEntry) string {
	switch {
	case e.GetReason() != "":
		return e.GetReason()
	case e.GetBefore() == "" && e.GetAfter() == "":
		return e.GetRequest()
	}
	return orNone(e.GetBefore()) + " → " + orNone(e.GetAfter())
}
