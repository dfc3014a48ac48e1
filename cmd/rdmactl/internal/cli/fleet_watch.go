package cli

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var nodeColours = map[rdmadv1.WatchNodesResponse_Type]output.Colour{
	rdmadv1.WatchNodesResponse_CHANGED:    output.Yellow,
	rdmadv1.WatchNodesResponse_REMOVED:    output.Red,
	rdmadv1.WatchNodesResponse_UNREADABLE: output.Red,
}

func nodeLine(e *rdmadv1.WatchNodesResponse) []output.Cell {
	line := []output.Cell{
		{Text: e.GetTime().AsTime().Local().Format(time.TimeOnly)},
		{Text: fmt.Sprintf("%-10s", word(e.GetType().String())), Colour: nodeColours[e.GetType()]},
	}
	n := e.GetNode()
	switch e.GetType() {
	case rdmadv1.WatchNodesResponse_LISTED:
		return append(line, output.Cell{Text: "these are all nodes"})
	case rdmadv1.WatchNodesResponse_UNREADABLE:
		return append(line, output.Cell{Text: e.GetReason()})
	case rdmadv1.WatchNodesResponse_REMOVED:
		return append(line, output.Cell{Text: n.GetName()})
	}
	text := fmt.Sprintf("assigned %s, applied %s", output.Count(n.GetAssignedRevision()), output.Count(n.GetAppliedRevision()))
	if !n.GetHealthy() {
		text += ", not healthy"
	}
	if n.GetDrift() {
		text += ", drift"
	}
	if why := n.GetStatus().GetRefused(); why != "" {
		text += ": " + why
	}
	return append(line, output.Cell{Text: n.GetName()}, nodeState(n), output.Cell{Text: text})
}
