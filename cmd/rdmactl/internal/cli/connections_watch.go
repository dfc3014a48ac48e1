package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectionsWatch(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print connections, then every change, until you interrupt it",
		Long: `Print the connections that are up. Then print a line when a connection comes up,
ends or gets other settings, until you interrupt it.`,
		Example:     "  rdmactl connections watch --listener nfs -o json",
		Annotations: streams,
	}
	req := &rdmadv1.WatchConnectionsRequest{}
	a.listenerFlag(cmd, &req.Listener)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return watchLines(cmd.Context(), a, api.WatchConnections, req, eventLine)
	}
	return cmd
}

var eventColours = map[rdmadv1.WatchConnectionsResponse_Type]output.Colour{
	rdmadv1.WatchConnectionsResponse_UP:      output.Green,
	rdmadv1.WatchConnectionsResponse_DOWN:    output.Red,
	rdmadv1.WatchConnectionsResponse_CHANGED: output.Yellow,
}

func eventLine(e *rdmadv1.WatchConnectionsResponse) []output.Cell {
	c := e.GetConnection()
	what := word(e.GetType().String())
	text := fmt.Sprintf("inline send %d, credits %d, remote invalidation %s",
		c.GetInlineSend(), c.GetCreditsGranted(), onOff(c.GetRemoteInvalidation()))
	if e.GetType() == rdmadv1.WatchConnectionsResponse_DOWN {
		text = e.GetReason()
	}
	return []output.Cell{
		{Text: e.GetTime().AsTime().Local().Format(time.TimeOnly)},
		{Text: fmt.Sprintf("%-8s", what), Colour: eventColours[e.GetType()]},
		{Text: "connection " + c.GetId()},
		{Text: c.GetListener()},
		{Text: c.GetPeer()},
		{Text: text},
	}
}
