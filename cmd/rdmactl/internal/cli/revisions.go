package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// parseRevision reads REVISION.
func parseRevision(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, usagef("%q is not a revision (a number from 0); rdmactl settings history lists revisions", s)
	}
	return uint32(n), nil
}

func newSettingsConfirm(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm [REVISION]",
		Short: "Keep a change that was made with --confirm-within",
		Long: `Keep a change that was made with --confirm-within. With REVISION, only that
one.`,
		Example:           "  rdmactl settings confirm",
		ValidArgsFunction: a.completeUnconfirmed,
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &rdmadv1.ConfirmSettingsRequest{}
			if len(args) > 0 {
				var err error
				if req.Revision, err = parseRevision(args[0]); err != nil {
					return err
				}
				if req.Revision == 0 { // which a request has for any
					return usagef("revision 0 never waits to be confirmed; rdmactl settings history lists revisions")
				}
			}
			res, err := ask(cmd.Context(), a, api.ConfirmSettings, req)
			if err != nil {
				return err
			}
			return a.said(res, "revision %d is confirmed", res.GetRevision())
		},
	}
}

func newSettingsHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "Print the changes of settings, newest first",
		Example: "  rdmactl settings history --limit 5",
	}
	limit := limitFlag(cmd, "revisions")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return showList(cmd.Context(), a, api.ListRevisions, &rdmadv1.ListRevisionsRequest{PageSize: mostOfPage}, *limit, historyTable)
	}
	return cmd
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command, of string) *uint32 {
	return cmd.Flags().Uint32("limit", 20, "most "+of+" to show; 0 for all")
}

func historyTable(res *rdmadv1.ListRevisionsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "REVISION", Right: true},
		{Name: "TIME", Drop: 2},
		{Name: "WHO", Min: 8},
		{Name: "KIND", Drop: 1},
		{Name: "STATE"},
		{Name: "SCOPE", Min: 8},
		{Name: "CHANGES", Min: 20},
		{Name: "COMMENT", Min: 8, Drop: 3},
	}}
	for _, r := range res.GetRevisions() {
		t.Cells(revisionCells(r, clock(r.GetTime()))...)
	}
	return t
}

var stateColours = map[rdmadv1.Revision_State]output.Colour{
	rdmadv1.Revision_UNCONFIRMED: output.Yellow,
	rdmadv1.Revision_UNDONE:      output.Red,
}

func revisionCells(r *rdmadv1.Revision, when string) []output.Cell {
	kind := word(r.GetKind().String())
	switch r.GetKind() {
	case rdmadv1.Revision_ROLLBACK, rdmadv1.Revision_EXPIRED:
		kind = fmt.Sprintf("%s to %d", kind, r.GetRestored())
	}
	return []output.Cell{
		{Text: fmt.Sprint(r.GetRevision())},
		{Text: when},
		{Text: r.GetActor()},
		{Text: kind},
		{Text: word(r.GetState().String()), Colour: stateColours[r.GetState()]},
		{Text: r.GetScope()},
		{Text: changesText(r.GetChanges(), r.GetScope())},
		{Text: r.GetComment()},
	}
}

func newSettingsRollback(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Make a new revision with the settings of an old one",
		Long: `Make a new revision with the settings of an old one. Revision 0 is the
configuration file alone. A rollback ends a confirm window. Settings of ended
connections do not return. If nothing changes, there is no new revision.`,
		Example:           "  rdmactl settings rollback 12 --dry-run",
		ValidArgsFunction: a.completeRevision,
	}
	var c changeFlags
	c.flags(a, cmd)
	c.commentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := parseRevision(args[0])
		if err != nil {
			return err
		}
		res, err := ask(cmd.Context(), a, api.RollbackSettings,
			&rdmadv1.RollbackSettingsRequest{Revision: to, ExpectedRevision: c.expected(cmd), DryRun: c.dryRun, Comment: c.comment})
		if err != nil {
			return err
		}
		return a.made(res, everything, c.dryRun, nil, changesTable(res.GetChanges(), res.GetEffects()))
	}
	return cmd
}

func newSettingsWatch(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch",
		Short: "Print new revisions until you interrupt it",
		Long: `Print a line for each new revision, and for each revision that is confirmed or
rolled back, until you interrupt it.`,
		Example:     "  rdmactl settings watch",
		Annotations: streams,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watchLines(cmd.Context(), a, api.WatchSettings, &rdmadv1.WatchSettingsRequest{},
				func(e *rdmadv1.WatchSettingsResponse) []output.Cell { return revisionLine(e.GetRevision()) })
		},
	}
}

// revisionLine is a revision on a line of its own.
func revisionLine(r *rdmadv1.Revision) []output.Cell {
	cells := revisionCells(r, clock(r.GetTime()))
	cells[0], cells[1] = cells[1], output.Cell{Text: "revision " + cells[0].Text}
	return append(cells[:2], slices.DeleteFunc(cells[2:], func(c output.Cell) bool { return strings.TrimSpace(c.Text) == "" })...)
}
