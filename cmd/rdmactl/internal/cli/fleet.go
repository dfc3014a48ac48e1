package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	"github.com/rdmad/rdmad/controlplane/fleet"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newFleet(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "fleet",
		Short: "The fleet of this rdmad: its nodes, policies and rollouts",
		Long: `Shows and changes the fleet in which the rdmad at --addr is. Every rdmad of the fleet
answers in the same way. Policies give settings to the nodes that they select by labels.`,
	}, newFleetNodes(a), newFleetShow(a), newFleetDrift(a), newFleetPolicies(a), newFleetApply(a), newFleetRollouts(a), newFleetRollback(a), newFleetHistory(a), newFleetRemove(a))
}

// fleetNodes asks for all nodes. Keys of nodes that can't be read go to standard error.
func (a *app) fleetNodes(ctx context.Context) (*rdmadv1.ListNodesResponse, error) {
	all, err := askPages(ctx, a, api.ListNodes, &rdmadv1.ListNodesRequest{}, 0)
	for _, problem := range all.GetProblems() {
		fmt.Fprintln(a.stderr, "rdmactl: warning:", terminal.OneLine(problem)) // anybody may have written the key
	}
	return all, err
}

func newFleetNodes(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes of the fleet",
		Long: `Lists the nodes of the fleet. ASSIGNED is the revision of a node's assignment, APPLIED
the revision in force. DRIFT is yes if they differ, or if operators of the node set other
values than its policies: fleet drift shows which. CALLS/S, ERRORS/S and P99 are those of the
last interval, of about 5 seconds: an error is a call that was answered with an RPC error or
an NFS status of the server, such as NFS3ERR_IO, or an error of an RDMA connection. A node
that is DOWN is not connected to etcd. It may serve its clients.`,
		Example: "  rdmactl fleet nodes\n  rdmactl fleet nodes -o json\n  rdmactl fleet nodes watch",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "watch",
		Short: "Nodes as they are, then every change until interrupted",
		Long: `Prints the nodes, then a line when one joins, leaves, is assigned other policies, or
reports something other than its load, until you interrupt it. It continues with what changed
meanwhile after a restart of rdmad or of etcd.`,
		Example:     "  rdmactl fleet nodes watch\n  rdmactl fleet nodes watch -o json",
		Annotations: streams,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, req := a.printer(), &rdmadv1.WatchNodesRequest{ChangesOnly: true}
			return follow(cmd.Context(), a, api.WatchNodes, req, func(e *rdmadv1.WatchNodesResponse) error {
				req.ResumeToken = cmp.Or(e.GetResumeToken(), req.ResumeToken) // to continue after it when rdmad or etcd come back
				return p.Event(e, func() []output.Cell { return nodeLine(e) })
			})
		},
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		res, err := a.fleetNodes(cmd.Context())
		if err != nil {
			return err
		}
		return a.printer().Answer(res, func() *output.Table { return fleetTable(res.GetNodes()) })
	}
	return cmd
}

func fleetTable(all []*rdmadv1.FleetNode) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME"}, {Name: "STATE"}, {Name: "HEALTHY"}, {Name: "DRIFT"}, {Name: "ASSIGNED", Right: true}, {Name: "APPLIED", Right: true},
		{Name: "CALLS/S", Right: true}, {Name: "ERRORS/S", Right: true}, {Name: "P99", Right: true}, {Name: "VERSION", Drop: 1}, {Name: "LABELS", Min: 10},
	}}
	for _, n := range all {
		calls, errors, p99 := nodeLoad(n)
		t.Cells(output.Cell{Text: n.GetName()}, nodeState(n), yes(n.GetHealthy(), output.Plain, output.Yellow), yes(n.GetDrift(), output.Yellow, output.Plain),
			output.Cell{Text: output.Count(n.GetAssignedRevision())}, output.Cell{Text: output.Count(n.GetAppliedRevision())},
			output.Cell{Text: calls}, output.Cell{Text: errors}, output.Cell{Text: p99},
			output.Cell{Text: n.GetVersion()}, output.Cell{Text: fleet.Labels(n.GetLabels()).String()})
	}
	return t
}

// nodeLoad writes the load of the last report. That of a node that is DOWN says nothing of now.
func nodeLoad(n *rdmadv1.FleetNode) (calls, errors, p99 string) {
	s := n.GetStatus()
	if s == nil || n.GetState() != rdmadv1.FleetNode_UP {
		return "", "", ""
	}
	return fmt.Sprintf("%.1f", s.GetCallsPerSecond()), fmt.Sprintf("%.1f", s.GetErrorsPerSecond()), took(s.GetP99())
}

func nodeState(n *rdmadv1.FleetNode) output.Cell {
	return output.Cell{Text: n.GetState().String(), Colour: either(n.GetState() == rdmadv1.FleetNode_UP, output.Green, output.Red)}
}

// yes writes a switch, in one of two colours.
func yes(on bool, yesColour, noColour output.Colour) output.Cell {
	return output.Cell{Text: either(on, "yes", "no"), Colour: either(on, yesColour, noColour)}
}

// either is one of two texts or colours.
func either[T ~string](first bool, one, other T) T {
	if first {
		return one
	}
	return other
}

func newFleetShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show NODE",
		Short:   "All that the fleet knows of a node",
		Long:    "Shows a node of the fleet: its policies, its last report, its conditions that are\nnot OK, and the settings that its operators set over those of policies.",
		Example: "  rdmactl fleet show gateway-1",
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := a.fleetNodes(cmd.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(res.GetNodes(), func(n *rdmadv1.FleetNode) bool { return n.GetName() == args[0] })
			if i < 0 {
				return fmt.Errorf("the fleet has no node %s: rdmactl fleet nodes lists them", args[0])
			}
			n := res.GetNodes()[i]
			return a.printer().Answer(n, func() *output.Table { return nodeTable(n) })
		},
	}
}

func nodeTable(n *rdmadv1.FleetNode) *output.Table {
	t := output.Pairs()
	t.Row("name", n.GetName())
	t.Cells(output.Cell{Text: "state"}, nodeState(n))
	t.Row("labels", fleet.Labels(n.GetLabels()).String())
	t.Row("version", n.GetVersion())
	t.Row("policies", orWords(n.GetPolicies(), "none"))
	t.Row("assigned", output.Count(n.GetAssignedRevision()))
	t.Row("applied", output.Count(n.GetAppliedRevision()))
	s := n.GetStatus()
	if s == nil {
		t.Row("report", "none")
		return t
	}
	t.Row("control", s.GetControlAddress())
	t.Row("report", clock(s.GetTime()))
	if s.GetRefused() != "" {
		t.Cells(output.Cell{Text: "refused"}, output.Cell{Text: s.GetRefused(), Colour: output.Red})
	}
	calls, errors, p99 := nodeLoad(n)
	if n.GetState() == rdmadv1.FleetNode_UP {
		t.Row("load", fmt.Sprintf("%s calls/s, %s errors/s, p99 %s, %d connections", calls, errors, p99, s.GetConnections()))
	}
	o := s.GetOutcomes()
	t.Row("connections", fmt.Sprintf("%d applied, %d pending reconnect, %d unsupported", o.GetApplied(), o.GetPendingReconnect(), o.GetUnsupported()))
	for _, pin := range s.GetPins() {
		t.Row("pin", pin)
	}
	for _, c := range s.GetConditions() {
		cell := conditionStatus(c)
		cell.Text += " " + c.GetKind() + "/" + c.GetName() + " " + c.GetReason() + ": " + c.GetMessage()
		t.Cells(output.Cell{Text: "condition"}, cell)
	}
	return t
}

func newFleetRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove a node that is DOWN from the fleet",
		Long: `Removes what etcd has of a node that is DOWN: its last report and its assignment. A node
that is UP leaves first: take the section fleet out of its configuration, and restart it.`,
		Example: "  rdmactl fleet remove gateway-3",
		RunE: func(cmd *cobra.Command, args []string) error {
			res, err := ask(cmd.Context(), a, api.RemoveNode, &rdmadv1.RemoveNodeRequest{Name: args[0]})
			if err != nil {
				return err
			}
			return a.said(res, "node %s is removed", args[0])
		},
	}
}

func newFleetDrift(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "drift",
		Short: "List the nodes whose settings are not those of their policies",
		Long: `Lists the nodes whose settings are not those of their policies, with the reason: the
node has not applied its assignment, or its operators set another value. To take such a
value away, run rdmactl settings set KEY=unset --scope SCOPE on the node.`,
		Example: "  rdmactl fleet drift",
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := a.fleetNodes(cmd.Context())
			if err != nil {
				return err
			}
			drifted := &rdmadv1.ListNodesResponse{Problems: res.GetProblems()}
			for _, n := range res.GetNodes() {
				if n.GetDrift() {
					drifted.Nodes = append(drifted.Nodes, n)
				}
			}
			return a.printer().Answer(drifted, func() *output.Table { return driftTable(drifted.GetNodes()) })
		},
	}
}

func driftTable(all []*rdmadv1.FleetNode) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "NODE"}, {Name: "STATE"}, {Name: "REASON"}}}
	for _, n := range all {
		s := n.GetStatus()
		for _, pin := range s.GetPins() {
			t.Cells(output.Cell{Text: n.GetName()}, nodeState(n), output.Cell{Text: pin})
		}
		if n.GetAppliedRevision() == n.GetAssignedRevision() {
			continue
		}
		why := fmt.Sprintf("assignment %s is not in force; %s is", output.Count(n.GetAssignedRevision()), output.Count(n.GetAppliedRevision()))
		if s.GetRefused() != "" {
			why += ": " + s.GetRefused()
		}
		t.Cells(output.Cell{Text: n.GetName()}, nodeState(n), output.Cell{Text: why})
	}
	return t
}
