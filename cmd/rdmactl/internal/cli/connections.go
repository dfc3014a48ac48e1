package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnections(a *app) *cobra.Command {
	cmd := group(&cobra.Command{Use: "connections", Short: "The RPC-over-RDMA connections that are up"})
	cmd.AddCommand(newConnectionsList(a), newConnectionsShow(a), newConnectionsWatch(a))
	return cmd
}

func newConnectionsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "All connections",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				res, err := rdmadv1.NewConnectionServiceClient(conn).ListConnections(ctx, &rdmadv1.ListConnectionsRequest{})
				if err != nil {
					return err
				}
				return a.printer().Answer(res, func() *output.Table { return connectionsTable(res.GetConnections()) })
			})
		},
	}
}

func connectionsTable(all []*rdmadv1.Connection) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "ID", Right: true},
		{Name: "LISTENER"},
		{Name: "PEER"},
		{Name: "PROVIDER", Drop: 8},
		{Name: "VERS", Right: true, Drop: 7},
		{Name: "INLINE-SEND", Right: true, Drop: 1},
		{Name: "INLINE-RECV", Right: true, Drop: 6},
		{Name: "CREDITS", Right: true},
		{Name: "REM-INV", Drop: 5},
		{Name: "CALLS", Right: true},
		{Name: "READS", Right: true, Drop: 3},
		{Name: "WRITES", Right: true, Drop: 3},
		{Name: "SENDS", Right: true, Drop: 4},
		{Name: "SEND-INV", Right: true, Drop: 4},
		{Name: "ERRORS", Right: true, Drop: 2},
		{Name: "STATE"},
	}}
	for _, c := range all {
		t.Cells(texts(c.GetId(), c.GetListener(), c.GetPeer(), c.GetProvider(), fmt.Sprint(c.GetRpcVersion()),
			fmt.Sprint(c.GetInlineSend()), fmt.Sprint(c.GetInlineReceive()), fmt.Sprint(c.GetCreditsGranted()),
			onOff(c.GetRemoteInvalidation()), count(c.GetCalls()), count(c.GetRdmaReads()), count(c.GetRdmaWrites()),
			count(c.GetSends()), count(c.GetSendsWithInvalidate()), count(c.GetErrors()), state(c))...)
	}
	return t
}

func texts(all ...string) []output.Cell {
	cells := make([]output.Cell, len(all))
	for i, s := range all {
		cells[i].Text = s
	}
	return cells
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func state(c *rdmadv1.Connection) string { return strings.ToLower(c.GetState().String()) }

func newConnectionsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "One connection, whole",
		Args:              exactly("ID"),
		ValidArgsFunction: a.completeConnection,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) error {
				res, err := rdmadv1.NewConnectionServiceClient(conn).GetConnection(ctx, &rdmadv1.GetConnectionRequest{Id: args[0]})
				if err != nil {
					return err
				}
				return a.printer().Answer(res, func() *output.Table { return connectionTable(res) })
			})
		},
	}
}

func connectionTable(res *rdmadv1.GetConnectionResponse) *output.Table {
	c := res.GetConnection()
	t := &output.Table{Columns: make([]output.Column, 2)}
	for _, row := range [][2]string{
		{"id", c.GetId()},
		{"state", state(c)},
		{"listener", c.GetListener()},
		{"service", c.GetService()},
		{"provider", c.GetProvider()},
		{"peer", c.GetPeer()},
		{"local", c.GetLocal()},
		{"since", clock(c.GetSince())},
		{"rpc version", fmt.Sprint(c.GetRpcVersion())},
		{"inline send", fmt.Sprintf("%d bytes", c.GetInlineSend())},
		{"inline receive", fmt.Sprintf("%d bytes", c.GetInlineReceive())},
		{"credits granted", fmt.Sprint(c.GetCreditsGranted())},
		{"remote invalidation", onOff(c.GetRemoteInvalidation())},
		{"extensions", strings.Join(c.GetExtensions(), ", ")},
		{"calls", count(c.GetCalls())},
		{"replies", count(c.GetReplies())},
		{"reverse calls", count(c.GetReverseCalls())},
		{"rdma reads", count(c.GetRdmaReads())},
		{"rdma writes", count(c.GetRdmaWrites())},
		{"sends", count(c.GetSends())},
		{"sends with invalidate", count(c.GetSendsWithInvalidate())},
		{"receives", count(c.GetReceives())},
		{"bytes received", count(c.GetBytesReceived())},
		{"bytes sent", count(c.GetBytesSent())},
		{"errors", count(c.GetErrors())},
	} {
		t.Row(row[0], row[1])
	}
	if s := res.GetTransport(); s != nil { // not from an older rdmad
		t.Next = transportTable(s)
	}
	return t
}

func newConnectionsWatch(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "watch",
		Short:             "Connections that are up, then every change until interrupted",
		Args:              exactly(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.watchConnections(cmd.Context()) },
	}
}

func (a *app) watchConnections(ctx context.Context) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := rdmadv1.NewConnectionServiceClient(conn).WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{})
	if err != nil {
		return err
	}
	p := a.printer()
	for {
		e, err := stream.Recv()
		if ended(ctx, err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.Event(e, func() []output.Cell { return eventLine(e) }); err != nil {
			return err
		}
	}
}

var eventColours = map[rdmadv1.WatchConnectionsResponse_Type]output.Colour{
	rdmadv1.WatchConnectionsResponse_UP:      output.Green,
	rdmadv1.WatchConnectionsResponse_DOWN:    output.Red,
	rdmadv1.WatchConnectionsResponse_CHANGED: output.Yellow,
}

func eventLine(e *rdmadv1.WatchConnectionsResponse) []output.Cell {
	c := e.GetConnection()
	what := strings.ToLower(e.GetType().String())
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
