package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newConnectionsShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Print everything about one connection",
		Long: `Print everything about one connection: the negotiated values, its counters, its
transport statistics with the names of a Linux client's mountstats, and the sizes
of its messages.`,
		Example:           "  rdmactl connections show 3",
		ValidArgsFunction: a.completeConnection,
		RunE: func(cmd *cobra.Command, args []string) error {
			return show(cmd.Context(), a, api.GetConnection, &rdmadv1.GetConnectionRequest{Id: args[0]}, connectionTable)
		},
	}
}

func connectionTable(res *rdmadv1.GetConnectionResponse) *output.Table {
	c := res.GetConnection()
	t := output.Pairs()
	for _, row := range [][2]string{
		{"id", c.GetId()},
		{"state", state(c)},
		{"listener", c.GetListener()},
		{"service", c.GetService()},
		{"provider", c.GetProvider()},
		{"peer", c.GetPeer()},
		{"client", c.GetClient()},
		{"local", c.GetLocal()},
		{"since", clock(c.GetSince())},
		{"rpc version", fmt.Sprint(c.GetRpcVersion())},
		{"inline send", fmt.Sprintf("%d bytes", c.GetInlineSend())},
		{"inline send held", res.GetInlineSendHeld()},
		{"inline receive", fmt.Sprintf("%d bytes", c.GetInlineReceive())},
		{"credits granted", fmt.Sprint(c.GetCreditsGranted())},
		{"remote invalidation", onOff(c.GetRemoteInvalidation())},
		{"extensions", strings.Join(c.GetExtensions(), ", ")},
		{"calls", output.Count(c.GetCalls())},
		{"replies", output.Count(c.GetReplies())},
		{"reverse calls", output.Count(c.GetReverseCalls())},
		{"rdma reads", output.Count(c.GetRdmaReads())},
		{"rdma writes", output.Count(c.GetRdmaWrites())},
		{"sends", output.Count(c.GetSends())},
		{"sends with invalidate", output.Count(c.GetSendsWithInvalidate())},
		{"receives", output.Count(c.GetReceives())},
		{"bytes received", output.Count(c.GetBytesReceived())},
		{"bytes sent", output.Count(c.GetBytesSent())},
		{"errors", output.Count(c.GetErrors())},
		{"calls in progress", fmt.Sprint(c.GetCallsInProgress())},
	} {
		if row[1] == "" && (row[0] == "client" || row[0] == "inline send held") {
			continue // the one is of connectors alone, the other seldom
		}
		t.Row(row[0], row[1])
	}
	last := t
	if c := res.GetCharacteristics(); c != nil {
		last.Next = characteristicsTable(c)
		last = last.Next
	}
	if s := res.GetTransport(); s != nil { // not from an older rdmad
		last.Next = transportTable(s)
	}
	return t
}
