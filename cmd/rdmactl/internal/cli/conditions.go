package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const conditionsHelp = `Lists the condition of each listener, service, export, upstream, connector, device and
certificate, of the state directory, of the last reload and more. Each has a reason, the
time since when it holds, and what to do. Conditions that are not OK come first:
  OK        nothing to do
  UNKNOWN   not checked yet
  DEGRADED  it works, but less well, or not for long
  FAILED    it does not do its work

The exit code is 1 when something is not OK; with --failed, when something FAILED.`

func newConditions(a *app) *cobra.Command {
	var failed bool
	cmd := &cobra.Command{
		Use:     "conditions",
		Short:   "List the conditions: what is OK and what is not, with reason and remedy",
		Long:    conditionsHelp,
		Example: "  rdmactl conditions\n  rdmactl conditions -o json\n  rdmactl conditions watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := ask(cmd.Context(), a, api.ListConditions, &rdmadv1.ListConditionsRequest{})
			if err != nil {
				return err
			}
			count := len(res.GetConditions())
			if failed {
				res.Conditions = slices.DeleteFunc(res.Conditions, func(c *rdmadv1.Condition) bool { return c.GetStatus() != rdmadv1.Condition_FAILED })
			}
			all := slices.Clone(res.GetConditions())
			slices.SortStableFunc(all, func(x, y *rdmadv1.Condition) int { return int(y.GetStatus()) - int(x.GetStatus()) })
			if err := a.printer().Answer(res, func() *output.Table { return conditionTable(all) }); err != nil || res.GetHealthy() || failed && len(all) == 0 {
				return err
			}
			if failed {
				return fmt.Errorf("%d of %d conditions FAILED", len(all), count)
			}
			good := slices.IndexFunc(all, func(c *rdmadv1.Condition) bool { return c.GetStatus() == rdmadv1.Condition_OK })
			if good < 0 {
				good = len(all)
			}
			return fmt.Errorf("%d of %d conditions are not OK", good, len(all)) // for the exit code; the table says why
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that FAILED, for health checks")
	cmd.AddCommand(&cobra.Command{
		Use:         "watch",
		Short:       "Conditions as they are, then every change until interrupted",
		Long:        "Conditions as they are, then a line for each that changes, until interrupted.",
		Example:     "  rdmactl conditions watch -o json",
		Annotations: streams,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watchLines(cmd.Context(), a, api.WatchConditions, &rdmadv1.WatchConditionsRequest{}, conditionLine)
		},
	})
	return cmd
}

func conditionTable(all []*rdmadv1.Condition) *output.Table {
	t := &output.Table{Whole: true, Columns: []output.Column{{Name: "STATUS"}, {Name: "KIND"}, {Name: "NAME"}, {Name: "SINCE"}, {Name: "REASON"}, {Name: "MESSAGE"}}}
	for _, c := range all {
		t.Cells(conditionStatus(c), output.Cell{Text: c.GetKind()}, output.Cell{Text: c.GetName()}, output.Cell{Text: clock(c.GetSince())},
			output.Cell{Text: c.GetReason()}, output.Cell{Text: c.GetMessage()})
		if c.GetRemedy() != "" {
			t.Row("", "", "", "", "", "→ "+c.GetRemedy())
		}
	}
	return t
}

var statusColours = map[rdmadv1.Condition_Status]output.Colour{
	rdmadv1.Condition_OK: output.Green, rdmadv1.Condition_UNKNOWN: output.Yellow,
	rdmadv1.Condition_DEGRADED: output.Yellow, rdmadv1.Condition_FAILED: output.Red,
}

func conditionStatus(c *rdmadv1.Condition) output.Cell {
	return output.Cell{Text: c.GetStatus().String(), Colour: statusColours[c.GetStatus()]}
}

func conditionLine(e *rdmadv1.WatchConditionsResponse) []output.Cell {
	c := e.GetCondition()
	status := conditionStatus(c)
	at := c.GetSince() // may be days ago
	if e.GetRemoved() {
		status, at = output.Cell{Text: "GONE"}, timestamppb.Now()
	}
	status.Text = fmt.Sprintf("%-8s", status.Text)
	return []output.Cell{
		{Text: clock(at)}, status, {Text: c.GetKind() + "/" + c.GetName()}, {Text: c.GetReason()},
		{Text: c.GetMessage()},
	}
}

// healthRow shows the health in the summary. An older rdmad does not report it.
func healthRow(t *output.Table, s *rdmadv1.GetStatusResponse) {
	cell := output.Cell{Text: "healthy", Colour: output.Green}
	if worst := s.GetWorstCondition(); worst != nil {
		cell = output.Cell{Colour: statusColours[worst.GetStatus()], Text: fmt.Sprintf("%d not OK (rdmactl conditions): %s/%s %s %s",
			s.GetConditionsNotOk(), worst.GetKind(), worst.GetName(), worst.GetStatus(), worst.GetReason())}
		if worst.GetMessage() != "" {
			cell.Text += ": " + worst.GetMessage()
		}
	} else if !s.GetHealthy() {
		return
	}
	t.Cells(output.Cell{Text: "health"}, cell)
}
