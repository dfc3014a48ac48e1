package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newFleetPolicies(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies [POLICY]",
		Short: "List the policies of the fleet, or the revisions of one",
		Long: `Lists the newest revision of each policy, with the nodes that it selects, its priority and its
settings. With POLICY, lists the revisions of that policy, the newest first, with the state of
the rollout of each. etcd keeps 100.`,
		Example: "  rdmactl fleet policies\n  rdmactl fleet policies small\n  rdmactl fleet policies -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showList(cmd.Context(), a, api.ListPolicyRevisions, &rdmadv1.ListPolicyRevisionsRequest{Policy: args[0]}, 0, policyRevisions)
			}
			return showList(cmd.Context(), a, api.ListPolicies, &rdmadv1.ListPoliciesRequest{}, 0, policyTable)
		},
	}
	cmd.AddCommand(newFleetPolicyRemove(a))
	return cmd
}

func newFleetPolicyRemove(a *app) *cobra.Command {
	var request policyRequest
	cmd := &cobra.Command{
		Use:   "remove POLICY",
		Short: "Take a policy's settings away from its nodes",
		Long: `Stores a next revision of the policy that has no settings, and begins its rollout: the nodes get
their settings without the policy. Its earlier revisions stay: fleet rollback brings one
back.

` + planHelp,
		Example: "  rdmactl fleet policies remove small --dry-run\n  rdmactl fleet policies remove small\n  rdmactl fleet policies remove small --at-once",
	}
	request.register(cmd, "removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := ask(cmd.Context(), a, api.ListPolicyRevisions, &rdmadv1.ListPolicyRevisionsRequest{Policy: args[0], PageSize: 1})
		if err != nil {
			return err
		}
		newest := all.GetRevisions()[0]
		return request.send(cmd, a, &rdmadv1.FleetPolicy{Name: newest.GetName(), Selector: newest.GetSelector(), Priority: newest.GetPriority()})
	}
	return cmd
}

func policyTable(res *rdmadv1.ListPoliciesResponse) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME"}, {Name: "REVISION", Right: true}, {Name: "PRIORITY", Right: true}, {Name: "SELECTOR", Min: 10}, {Name: "SETTINGS", Min: 10},
		{Name: "AUTHOR", Drop: 2}, {Name: "TIME", Drop: 1},
	}}
	for _, p := range res.GetPolicies() {
		t.Row(p.GetName(), number(p.GetRevision()), fmt.Sprint(p.GetPriority()), orWords(p.GetSelector(), "all nodes"), policySettings(p), p.GetAuthor(), clock(p.GetTime()))
	}
	return t
}

// policySettings writes KEY=VALUE, behind its scope unless that is the global one.
func policySettings(p *rdmadv1.FleetPolicy) string {
	var parts []string
	for _, one := range p.GetScopes() {
		v := settingsproto.Values(one.GetSettings())
		for _, k := range v.Keys().Keys() {
			text := k.String() + "=" + v.Format(k)
			if one.GetScope() != "global" {
				text = one.GetScope() + ":" + text
			}
			parts = append(parts, text)
		}
	}
	return orWords(parts, "none")
}

// policyRequest stores a revision of a policy.
type policyRequest struct {
	comment string
	dryRun  bool
	plan    planFlags
}

func (r *policyRequest) register(cmd *cobra.Command, comment string) {
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "check the policy and ask the nodes for its effects, but change nothing")
	cmd.Flags().StringVar(&r.comment, "comment", comment, "reason of the change")
	r.plan.register(cmd)
}

func (r *policyRequest) send(cmd *cobra.Command, a *app, p *rdmadv1.FleetPolicy) error {
	plan, err := r.plan.plan(cmd)
	if err != nil {
		return err
	}
	p.Comment = r.comment
	res, err := ask(cmd.Context(), a, api.ApplyPolicy, &rdmadv1.ApplyPolicyRequest{Policy: p, DryRun: r.dryRun, Plan: plan, AtOnce: r.plan.atOnce})
	if err != nil {
		return err
	}
	if err := a.printer().Answer(res, func() *output.Table { return appliedTable(res, res.GetEffects(), r.dryRun) }); err != nil {
		return err
	}
	return refusals(res.GetEffects())
}

func newFleetApply(a *app) *cobra.Command {
	var file string
	var request policyRequest
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Store a new revision of a policy, and begin its rollout",
		Long: `Stores the policy of FILE as its next revision, and begins its rollout to the nodes that it
selects and to those that its previous revision selected.

` + planHelp + `

FILE is YAML, or TOML or JSON by its name; - stands for standard input. It has a name, a
selector, a priority, and the sections settings and scopes of the configuration file. fleet
policies remove takes a policy's settings away.

--dry-run asks each node that the policy selects, or that has its previous revision: which
values in force would change there, on how many connections the change would be applied at
once, after they reconnect, or not at all, or why the node would refuse the policy. The exit
code is 1 if a node would refuse it.`,
		Example: "  rdmactl fleet apply -f small.yaml --dry-run\n  rdmactl fleet apply -f small.yaml --comment 'less memory'\n  rdmactl fleet apply -f small.yaml --canary 2 --waves 25%,100% --spread rack --bake 10m",
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`FILE` with the policy")
	must(cmd.MarkFlagFilename("file"))
	request.register(cmd, "")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return usagef("%s needs -f FILE", cmd.CommandPath())
		}
		text, err := a.readInput(cmd, file, "policy", maxExport)
		if err != nil {
			return err
		}
		p, err := fleet.ReadPolicy(file, text)
		if err != nil {
			return err
		}
		return request.send(cmd, a, fleetproto.PolicyMessage(p))
	}
	return cmd
}

// refusals is the error of a dry run that nodes refuse; the table says why.
func refusals(all []*rdmadv1.NodeEffects) error {
	refused := 0
	for _, n := range all {
		if n.GetAnswer() == rdmadv1.NodeEffects_REFUSED {
			refused++
		}
	}
	if refused == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d nodes would refuse the policy", refused, len(all))
}

// applied is the answer to a request that began a rollout.
type applied interface {
	GetPolicy() string
	GetRevision() uint32
	GetRolloutId() string
	GetNodes() []string
}

func appliedTable(res applied, effects []*rdmadv1.NodeEffects, dryRun bool) *output.Table {
	t := output.Pairs()
	t.Row("policy", res.GetPolicy())
	revision := number(res.GetRevision())
	if dryRun {
		revision += ", not stored (--dry-run)"
	}
	t.Row("revision", revision)
	t.Row("rollout", res.GetRolloutId())
	t.Row("nodes", orWords(res.GetNodes(), "none"))
	if len(effects) > 0 {
		t.Next = nodeEffectsTable(effects)
	}
	return t
}

// nodeEffectsTable has a line for each node, and for each further change on it.
func nodeEffectsTable(all []*rdmadv1.NodeEffects) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NODE"}, {Name: "ANSWER"}, {Name: "APPLIED", Right: true}, {Name: "PENDING", Right: true}, {Name: "UNSUPPORTED", Right: true}, {Name: "CHANGE"},
	}}
	for _, n := range all {
		var applied, pending, unsupported output.Cell
		if o := n.GetConnections(); n.GetAnswer() == rdmadv1.NodeEffects_ACCEPTED {
			applied.Text, pending.Text, unsupported.Text = fmt.Sprint(o.GetApplied()), fmt.Sprint(o.GetPendingReconnect()), fmt.Sprint(o.GetUnsupported())
		}
		answer := output.Cell{Text: n.GetAnswer().String(), Colour: cmp.Or(answerColours[n.GetAnswer()], output.Yellow)}
		first := []output.Cell{{Text: n.GetNode()}, answer, applied, pending, unsupported}
		for i, line := range effectLines(n) {
			if i > 0 {
				first = make([]output.Cell, len(first))
			}
			t.Cells(append(first, output.Cell{Text: line})...)
		}
	}
	return t
}

// answerColours are those of answers that are not yellow.
var answerColours = map[rdmadv1.NodeEffects_Answer]output.Colour{rdmadv1.NodeEffects_ACCEPTED: output.Green, rdmadv1.NodeEffects_REFUSED: output.Red}

// effectLines are what a policy would do on a node: at least one line.
func effectLines(n *rdmadv1.NodeEffects) (lines []string) {
	for _, c := range n.GetChanges() {
		lines = append(lines, fmt.Sprintf("%s: %s %s → %s", c.GetScope(), c.GetKey(), orNone(c.GetBefore()), orNone(c.GetAfter())))
	}
	for _, pin := range n.GetPins() {
		lines = append(lines, "pin: "+pin)
	}
	switch {
	case n.GetReason() != "":
		lines = append(lines, n.GetReason())
	case lines == nil:
		lines = append(lines, "nothing")
	}
	return lines
}
