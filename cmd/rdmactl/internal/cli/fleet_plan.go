package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const planHelp = `The nodes get the revision in waves: first --canary, then as many as --waves says have it. When
all nodes of a wave have applied it, the gates watch them for the time of --bake; then the nodes
keep it, and the next wave begins. If a gate fails, all nodes take the change back. They also do
so by themselves if they hear nothing from the fleet. fleet rollouts shows the progress.`

// planFlags are the flags of a rollout.
type planFlags struct {
	p                 rdmadv1.RolloutPlan
	canary, waves     string
	bake, applyWithin time.Duration
	atOnce            bool
}

// planFlagNames are those of the flags that --at-once excludes.
var planFlagNames = []string{"canary", "waves", "bake", "apply-within", "spread", "max-errors", "max-p99", "max-unsupported", "max-lost", "ignore-conditions"}

func (f *planFlags) register(cmd *cobra.Command) {
	s := cmd.Flags()
	s.StringVar(&f.canary, "canary", "1", "nodes of the first wave: a number or a percentage; 0 for no canary")
	s.StringVar(&f.waves, "waves", "10%,50%,100%", "nodes that have the change after each further wave: numbers or percentages")
	s.DurationVar(&f.bake, "bake", 5*time.Minute, "time for which the gates watch the nodes of a wave")
	s.DurationVar(&f.applyWithin, "apply-within", time.Minute, "time within which the nodes of a wave must apply the change, and for which a node may be DOWN")
	s.StringVar(&f.p.Spread, "spread", "", "`LABEL` over whose values the nodes of each wave are spread, such as rack")
	f.p.MaxErrorsPerSecond = s.Float64("max-errors", 1, "gate: errors per second that a node may have more than before")
	f.p.MaxP99Ratio = s.Float64("max-p99", 2, "gate: how many times as long as before a node's p99 may be; 0 for no gate")
	s.Uint32Var(&f.p.MaxUnsupported, "max-unsupported", 0, "gate: connections on which the change may be UNSUPPORTED")
	s.Uint32Var(&f.p.MaxLost, "max-lost", 0, "gate: nodes that may be DOWN for longer than --apply-within after they got the change")
	s.BoolVar(&f.p.IgnoreConditions, "ignore-conditions", false, "no gate: continue if a node has a new condition that is not OK")
	s.BoolVar(&f.atOnce, "at-once", false, "all nodes at once: no waves, no gates, no way back by itself")
}

// plan is what the flags say; nil with --at-once.
func (f *planFlags) plan(cmd *cobra.Command) (*rdmadv1.RolloutPlan, error) {
	if f.atOnce {
		for _, name := range planFlagNames {
			if cmd.Flags().Changed(name) {
				return nil, usagef("--at-once and --%s exclude each other", name)
			}
		}
		return nil, nil
	}
	f.p.Bake, f.p.ApplyWithin, f.p.Waves = durationpb.New(f.bake), durationpb.New(f.applyWithin), []string{f.canary}
	for part := range strings.SplitSeq(f.waves, ",") {
		f.p.Waves = append(f.p.Waves, strings.TrimSpace(part))
	}
	return &f.p, nil
}
