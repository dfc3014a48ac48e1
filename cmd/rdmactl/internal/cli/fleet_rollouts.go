package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const rolloutsHelp = `Shows and changes rollouts. A rollout brings one revision of a policy to its nodes, in waves. Its
id is POLICY@REVISION. Its states:
  RUNNING      waves begin one after another
  PAUSED       no further wave begins
  DONE         all nodes that the policy selects have the revision
  HALTED       a gate failed; the nodes take the change back
  ROLLED_BACK  a gate failed, and the nodes have taken the change back
  ABORTED      an operator aborted it; the nodes take the change back`

func newFleetRollouts(a *app) *cobra.Command {
	return groupOf(&cobra.Command{
		Use: "rollouts", Aliases: []string{"rollout"}, Short: "Rollouts of policies: list, show, watch, pause, resume, abort", Long: rolloutsHelp,
		Example: "  rdmactl fleet rollouts\n  rdmactl fleet rollouts show small@2",
	},
		newRolloutsList(a), newRolloutShow(a), newRolloutWatch(a),
		newRolloutChange(a, "pause", "Let no further wave of a rollout begin", "Lets no further wave of a rollout begin. The wave that is under way\ncontinues: if the gates pass, its nodes keep the change.",
			api.PauseRollout, &rdmadv1.PauseRolloutRequest{}),
		newRolloutChange(a, "resume", "Let the further waves of a rollout begin", "Lets the further waves of a paused rollout begin.",
			api.ResumeRollout, &rdmadv1.ResumeRolloutRequest{}),
		newRolloutChange(a, "abort", "End a rollout: its nodes take the change back", "Ends a rollout. Its nodes take the change back. A rollout that is HALTED\nstops waiting for nodes that have not done so.",
			api.AbortRollout, &rdmadv1.AbortRolloutRequest{}))
}

func newRolloutsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the rollouts",
		Long:    "Lists the rollouts, ordered by policy, of each the newest first. etcd keeps 20 of each policy.",
		Example: "  rdmactl fleet rollouts list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showList(cmd.Context(), a, api.ListRollouts, &rdmadv1.ListRolloutsRequest{}, 0, rolloutsTable)
		},
	}
}

func rolloutsTable(res *rdmadv1.ListRolloutsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "ID"}, {Name: "STATE"}, {Name: "WAVES"}, {Name: "BEGAN"}, {Name: "AUTHOR", Drop: 1}, {Name: "REASON", Min: 10},
	}}
	for _, r := range res.GetRollouts() {
		t.Cells(output.Cell{Text: r.GetId()}, rolloutState(r), output.Cell{Text: progress(r)}, output.Cell{Text: clock(r.GetBegan())},
			output.Cell{Text: r.GetAuthor()}, output.Cell{Text: r.GetReason()})
	}
	return t
}

var rolloutColours = map[rdmadv1.FleetRollout_State]output.Colour{
	rdmadv1.FleetRollout_DONE: output.Green, rdmadv1.FleetRollout_PAUSED: output.Yellow, rdmadv1.FleetRollout_ABORTED: output.Yellow,
	rdmadv1.FleetRollout_HALTED: output.Red, rdmadv1.FleetRollout_ROLLED_BACK: output.Red,
}

func rolloutState(r *rdmadv1.FleetRollout) output.Cell {
	return output.Cell{Text: r.GetState().String(), Colour: rolloutColours[r.GetState()]}
}

// progress says how many waves are done, and the state of the one that is under way.
func progress(r *rdmadv1.FleetRollout) string {
	if r.GetPlan() == nil {
		return "at once"
	}
	done, under := 0, ""
	for _, w := range r.GetWaves() {
		switch w.GetState() {
		case rdmadv1.FleetWave_DONE:
			done++
		case rdmadv1.FleetWave_PENDING:
		default:
			under = ", " + w.GetState().String()
		}
	}
	return fmt.Sprintf("%d/%d%s", done, len(r.GetWaves()), under)
}

// rolloutTable has the rollout, then a line for each wave.
func rolloutTable(r *rdmadv1.FleetRollout) *output.Table {
	t := output.Pairs()
	t.Row("rollout", r.GetId())
	t.Cells(output.Cell{Text: "state"}, rolloutState(r))
	if r.GetReason() != "" {
		t.Row("reason", r.GetReason())
	}
	if r.GetPreviousRevision() != 0 {
		t.Row("before", r.GetPolicy()+"@"+number(r.GetPreviousRevision()))
	}
	t.Row("author", r.GetAuthor())
	t.Row("began", clock(r.GetBegan()))
	if r.GetEnded() != nil {
		t.Row("ended", clock(r.GetEnded()))
	}
	t.Row("waves", strings.Join(planWords(r.GetPlan()), ", "))
	if len(r.GetWaves()) > 0 {
		t.Next = wavesTable(r.GetWaves())
	}
	return t
}

func planWords(p *rdmadv1.RolloutPlan) []string {
	if p == nil {
		return []string{"all nodes at once"}
	}
	words := []string{strings.Join(p.GetWaves(), " "), "bake " + p.GetBake().AsDuration().String()}
	if p.GetSpread() != "" {
		words = append(words, "spread over "+p.GetSpread())
	}
	return words
}

var waveColours = map[rdmadv1.FleetWave_State]output.Colour{
	rdmadv1.FleetWave_DONE: output.Green, rdmadv1.FleetWave_TAKING_BACK: output.Red, rdmadv1.FleetWave_TAKEN_BACK: output.Red,
}

func wavesTable(all []*rdmadv1.FleetWave) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "WAVE", Right: true}, {Name: "STATE"}, {Name: "SINCE"}, {Name: "NODES", Min: 20}, {Name: "REASON", Min: 20}}}
	for i, w := range all {
		t.Cells(output.Cell{Text: strconv.Itoa(i + 1)}, output.Cell{Text: w.GetState().String(), Colour: waveColours[w.GetState()]},
			output.Cell{Text: clock(w.GetSince())}, output.Cell{Text: fleet.Names(w.GetNodes())}, output.Cell{Text: w.GetReason()})
	}
	return t
}

func newRolloutShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "A rollout with its waves",
		Long:    "Shows a rollout: its state, why it was halted, and the nodes of each wave.",
		Example: "  rdmactl fleet rollouts show small@2\n  rdmactl fleet rollouts show small@2 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return showRollout(cmd.Context(), a, api.GetRollout, &rdmadv1.GetRolloutRequest{Id: args[0]})
		},
	}
}

func newRolloutWatch(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "A line for each change of a rollout, until it ends",
		Long: `Prints a line for a rollout as it is, and for each change, until it has ended and no node takes
its change back any more. The exit code is 1 if it was rolled back or aborted.`,
		Example:     "  rdmactl fleet rollouts watch small@2",
		Annotations: streams,
		RunE: func(cmd *cobra.Command, args []string) error {
			p := a.printer()
			var last *rdmadv1.FleetRollout
			err := follow(cmd.Context(), a, api.WatchRollout, &rdmadv1.WatchRolloutRequest{Id: args[0]},
				func(e *rdmadv1.WatchRolloutResponse) error {
					last = e.GetRollout()
					return p.Event(last, func() []output.Cell { return rolloutLine(last) })
				})
			if errors.Is(err, io.EOF) { // the rollout has ended
				err = nil
			}
			if s := last.GetState(); err == nil && (s == rdmadv1.FleetRollout_ROLLED_BACK || s == rdmadv1.FleetRollout_ABORTED) {
				return fmt.Errorf("rollout %s is %s: %s", last.GetId(), s, last.GetReason()) // it has not brought its revision
			}
			return err
		},
	}
}

// rolloutLine is the rollout now, with the wave that changed last. Waves begin by another clock than
// the rollout.
func rolloutLine(r *rdmadv1.FleetRollout) []output.Cell {
	state := rolloutState(r)
	state.Text = fmt.Sprintf("%-11s", state.Text)
	wave, at := "", time.Time{}
	for i, w := range r.GetWaves() {
		if since := w.GetSince(); since != nil && !since.AsTime().Before(at) {
			at = since.AsTime()
			wave = fmt.Sprintf("wave %d/%d %s on %s", i+1, len(r.GetWaves()), w.GetState(), fleet.Names(w.GetNodes()))
		}
	}
	if wave == "" {
		at = r.GetBegan().AsTime()
	}
	if ended := r.GetEnded(); ended != nil && ended.AsTime().After(at) {
		at = ended.AsTime()
	}
	return []output.Cell{{Text: at.Local().Format(time.DateTime)}, state, {Text: wave}, {Text: r.GetReason()}}
}

// rolloutAnswer is an answer that holds a rollout.
type rolloutAnswer interface{ GetRollout() *rdmadv1.FleetRollout }

// newRolloutChange makes a command that changes the rollout whose id it sets in req.
func newRolloutChange[Q proto.Message, R rolloutAnswer](a *app, verb, short, long string, method unary[Q, R], req Q) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID", Short: short, Long: long, Example: "  rdmactl fleet rollouts " + verb + " small@2",
		RunE: func(cmd *cobra.Command, args []string) error {
			setField(req, "id", args[0])
			return showRollout(cmd.Context(), a, method, req)
		},
	}
}

// showRollout makes one request and prints the rollout in the answer.
func showRollout[Q any, R rolloutAnswer](ctx context.Context, a *app, method unary[Q, R], req Q) error {
	res, err := ask(ctx, a, method, req)
	if err != nil {
		return err
	}
	return a.printer().Answer(res.GetRollout(), func() *output.Table { return rolloutTable(res.GetRollout()) })
}

func newFleetRollback(a *app) *cobra.Command {
	var comment string
	var flags planFlags
	cmd := &cobra.Command{
		Use:     "rollback POLICY REVISION",
		Short:   "Store an earlier revision of a policy as its next one",
		Long:    "Stores an earlier revision of a policy as its next one, and begins its rollout. fleet policies\nPOLICY lists the revisions.\n\n" + planHelp,
		Example: "  rdmactl fleet rollback small 1\n  rdmactl fleet rollback small 1 --at-once",
	}
	cmd.Flags().StringVar(&comment, "comment", "", "reason of the change")
	flags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		revision, err := strconv.ParseUint(args[1], 10, 32)
		if err != nil || revision == 0 {
			return usagef("%s: %q is not a revision", cmd.CommandPath(), args[1])
		}
		plan, err := flags.plan(cmd)
		if err != nil {
			return err
		}
		return show(cmd.Context(), a, api.RollbackPolicy,
			&rdmadv1.RollbackPolicyRequest{Policy: args[0], Revision: uint32(revision), Comment: comment, Plan: plan, AtOnce: flags.atOnce},
			func(res *rdmadv1.RollbackPolicyResponse) *output.Table { return appliedTable(res, nil, false) })
	}
	return cmd
}

// policyRevisions are the revisions of a policy that etcd keeps.
func policyRevisions(res *rdmadv1.ListPolicyRevisionsResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "REVISION", Right: true}, {Name: "ROLLOUT"}, {Name: "PRIORITY", Right: true}, {Name: "SELECTOR", Min: 10}, {Name: "SETTINGS", Min: 10},
		{Name: "AUTHOR", Drop: 2}, {Name: "TIME", Drop: 1}, {Name: "COMMENT", Min: 10},
	}}
	for i, p := range res.GetRevisions() {
		state := output.Cell{}
		if s := res.GetStates()[i]; s != rdmadv1.FleetRollout_STATE_UNSPECIFIED {
			state = rolloutState(&rdmadv1.FleetRollout{State: s})
		}
		t.Cells(output.Cell{Text: number(p.GetRevision())}, state, output.Cell{Text: fmt.Sprint(p.GetPriority())}, output.Cell{Text: orWords(p.GetSelector(), "all nodes")},
			output.Cell{Text: policySettings(p)}, output.Cell{Text: p.GetAuthor()}, output.Cell{Text: clock(p.GetTime())}, output.Cell{Text: p.GetComment()})
	}
	return t
}
