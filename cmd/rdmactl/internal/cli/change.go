package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// changeFlags are what changes of settings have in common.
type changeFlags struct {
	dryRun        bool
	revision      uint32
	confirmWithin time.Duration
	comment       string
}

// flags adds --dry-run and --revision, which all changes have.
func (c *changeFlags) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the effects, change nothing")
	cmd.Flags().Uint32Var(&c.revision, "revision", 0, "refuse the change if the settings changed after this revision")
	must(cmd.RegisterFlagCompletionFunc("revision", a.completeRevisionFlag))
}

func (c *changeFlags) confirmFlag(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&c.confirmWithin, "confirm-within", 0, "roll the change back after this time unless settings confirm comes first")
}

func (c *changeFlags) commentFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.comment, "comment", "", "reason of the change, for the history")
}

// expected is the revision that the change is for; nil for any.
func (c *changeFlags) expected(cmd *cobra.Command) *uint32 {
	if !cmd.Flags().Changed("revision") {
		return nil
	}
	return &c.revision
}

// window is the confirm window; nil for none.
func (c *changeFlags) window(cmd *cobra.Command) *durationpb.Duration {
	if !cmd.Flags().Changed("confirm-within") {
		return nil
	}
	return durationpb.New(c.confirmWithin)
}

// changed is what answers to changes have in common.
type changed interface {
	proto.Message
	GetRevision() uint32
	GetEffects() []*rdmadv1.Effect
}

// said prints an answer that has nothing to show: a sentence, or its JSON.
func (a *app) said(res proto.Message, format string, args ...any) error {
	p := a.printer()
	if a.format == output.FormatTable {
		return p.Note(format, args...)
	}
	return p.Answer(res, nil)
}

// everything stands for all scopes in made.
const everything = "everything"

// made prints what a change did to a scope, then to connections.
func (a *app) made(res changed, scope string, dryRun bool, deadline *timestamppb.Timestamp, table *output.Table) error {
	p := a.printer()
	var err error
	if same, ok := res.(interface{ GetUnchanged() bool }); ok && same.GetUnchanged() {
		err = p.Note("nothing changes: %s has these values already, at revision %d", scope, res.GetRevision())
	} else if dryRun {
		err = p.Note("dry run: nothing changed, %s stays at revision %d", scope, res.GetRevision())
	} else {
		err = p.Note("%s is at revision %d", scope, res.GetRevision())
	}
	if err == nil && deadline != nil {
		err = p.Line(output.Cell{Colour: output.Yellow, Text: fmt.Sprintf(
			"rdmad rolls this back at %s unless you run: rdmactl settings confirm", clock(deadline))})
	}
	if err != nil {
		return err
	}
	return p.Answer(res, func() *output.Table { return table })
}

var outcomeColours = map[rdmadv1.Effect_Outcome]output.Colour{
	rdmadv1.Effect_APPLIED:           output.Green,
	rdmadv1.Effect_PENDING_RECONNECT: output.Yellow,
	rdmadv1.Effect_UNSUPPORTED:       output.Red,
}

func outcome[T interface{ GetOutcome() rdmadv1.Effect_Outcome }](of T) output.Cell {
	return output.Cell{Text: of.GetOutcome().String(), Colour: outcomeColours[of.GetOutcome()]}
}

func effectsTable(effects []*rdmadv1.Effect) *output.Table {
	return output.Things(effects, []output.Field[*rdmadv1.Effect]{
		{Name: "CONNECTION", Right: true, Text: (*rdmadv1.Effect).GetConnectionId},
		{Name: "OUTCOME", Cell: outcome[*rdmadv1.Effect]},
		{Name: "REASON", Min: 12, Text: (*rdmadv1.Effect).GetReason},
	})
}

// changesTable shows values before and after, then the effects.
func changesTable(changes []*rdmadv1.SettingChange, effects []*rdmadv1.Effect) *output.Table {
	if len(changes) == 0 {
		t := &output.Table{Columns: make([]output.Column, 1)}
		t.Row("no setting changes")
		return t
	}
	t := &output.Table{Columns: []output.Column{{Name: "SCOPE", Min: 12}, {Name: "KEY"}, {Name: "BEFORE"}, {Name: "AFTER"}}}
	for _, c := range changes {
		t.Row(c.GetScope(), c.GetKey(), orNone(c.GetBefore()), orNone(c.GetAfter()))
	}
	t.Next = effectsTable(effects)
	return t
}

// orNone marks the absence of a value.
func orNone(value string) string { return cmp.Or(value, "-") }

// changesText is changes in a line. Their scope is said where it isn't that
// of all.
func changesText(changes []*rdmadv1.SettingChange, scope string) string {
	parts := make([]string, len(changes))
	for i, c := range changes {
		at := ""
		if c.GetScope() != scope {
			at = c.GetScope() + ":"
		}
		parts[i] = fmt.Sprintf("%s%s %s→%s", at, c.GetKey(), orNone(c.GetBefore()), orNone(c.GetAfter()))
	}
	return strings.Join(parts, ", ")
}

// setSettings makes a change and prints what it did.
func (a *app) setSettings(ctx context.Context, req *rdmadv1.SetSettingsRequest) error {
	res, err := ask(ctx, a, api.SetSettings, req)
	if err != nil {
		return err
	}
	return a.made(res, req.GetScope(), req.GetDryRun(), res.GetConfirmDeadline(), effectsTable(res.GetEffects()))
}
