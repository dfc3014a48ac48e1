package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// auditPage is the most entries that rdmad gives at once.
const auditPage = 1000

func newAudit(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who changed what, newest first",
		Long: `Print the audit log, newest first: all requests to change something, carried out
or refused, and the changes that rdmad made by itself. JSON and YAML have the
complete requests. You need the role admin.`,
		Example: `  rdmactl audit --since 24h
  rdmactl audit --since 2026-11-20 --actor alice --limit 0 -o json`,
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	since := cmd.Flags().String("since", "", "only entries since a time (2026-11-20T09:30:00Z), a day, or a duration before now (24h)")
	actor := cmd.Flags().String("actor", "", "only entries of this actor, as named by status and the log")
	limit := limitFlag(cmd, "entries")
	must(cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("actor", cobra.NoFileCompletions))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req := &rdmadv1.ListAuditRequest{Actor: *actor}
		if *since != "" {
			t, err := parseSince(*since, time.Now())
			if err != nil {
				return err
			}
			req.Since = timestamppb.New(t)
		}
		return a.audit(cmd.Context(), req, *limit)
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

func (a *app) audit(ctx context.Context, req *rdmadv1.ListAuditRequest, limit uint32) error {
	all := &rdmadv1.ListAuditResponse{}
	err := a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		client := rdmadv1.NewAuditServiceClient(conn)
		return pages(func(token string) (string, error) {
			all.NextPageToken = token
			size, more := wanted(limit, len(all.Entries), auditPage)
			if !more {
				return "", nil
			}
			req.PageSize, req.PageToken = size, token
			res, err := client.ListAudit(ctx, req)
			all.Entries = append(all.Entries, res.GetEntries()...)
			all.NextPageToken = res.GetNextPageToken()
			return res.GetNextPageToken(), err
		})
	})
	if err != nil {
		return err
	}
	p := a.printer()
	if err := p.Answer(all, func() *output.Table { return auditTable(all.GetEntries()) }); err != nil || all.NextPageToken == "" {
		return err
	}
	return p.Note("%s", thereIsMore)
}

func auditTable(all []*rdmadv1.AuditEntry) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "TIME"},
		{Name: "WHO", Min: 8},
		{Name: "ROLE", Drop: 2},
		{Name: "FROM", Drop: 3},
		{Name: "WHAT"},
		{Name: "OUTCOME"},
		{Name: "REVISION", Right: true, Drop: 1},
		{Name: "CHANGE", Min: 20},
	}}
	for _, e := range all {
		outcome := output.Cell{Text: e.GetOutcome(), Colour: output.Red}
		if e.GetOutcome() == "OK" {
			outcome.Colour = output.Green
		}
		t.Cells(output.Cell{Text: clock(e.GetTime())}, output.Cell{Text: e.GetActor()}, output.Cell{Text: role(e.GetRole())},
			output.Cell{Text: e.GetOrigin()}, output.Cell{Text: e.GetAction()[strings.LastIndexByte(e.GetAction(), '/')+1:]}, outcome,
			output.Cell{Text: number(e.GetRevision())}, output.Cell{Text: auditChange(e)})
	}
	return t
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
