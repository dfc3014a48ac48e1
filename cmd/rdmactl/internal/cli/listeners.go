package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newListeners(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "listeners", Short: "List, add, change and remove listeners"},
		newListenersList(a), newListenersAdd(a), newListenersUpdate(a), newListenersUnset(a), newListenersRemove(a))
}

func newListenersList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "All listeners",
		Long:    "List all listeners. JSON and YAML also have access lists and limits.",
		Example: "  rdmactl listeners list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showList(cmd.Context(), a, rdmadv1.NewListenerServiceClient, rdmadv1.ListenerServiceClient.ListListeners, &rdmadv1.ListListenersRequest{}, 0,
				func(res *rdmadv1.ListListenersResponse) *output.Table { return listenersTable(res.GetListeners()) })
		},
	}
}

func listenersTable(all []*rdmadv1.Listener) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "NAME", Min: 8},
		{Name: "PROVIDER", Drop: 3},
		{Name: "ADDRESS"},
		{Name: "SERVICE", Min: 8},
		{Name: "STATE"},
		{Name: "CONNECTIONS", Right: true},
		{Name: "ACCEPTED", Right: true, Drop: 1},
		{Name: "REFUSED", Right: true, Drop: 1},
		{Name: "FROM", Drop: 2},
		{Name: "SINCE", Drop: 4},
		{Name: "", Min: 10},
	}}
	for _, l := range all {
		cells := texts(l.GetName(), l.GetProvider(), l.GetAddress(), l.GetService(), word(l.GetState().String()),
			fmt.Sprint(l.GetConnections()), count(l.GetAccepted()), count(l.GetRefused()), from(l), clock(l.GetSince()), l.GetFailure())
		switch l.GetState() {
		case rdmadv1.Listener_DRAINING:
			cells[4].Colour = output.Yellow
		case rdmadv1.Listener_FAILED, rdmadv1.Listener_DEGRADED:
			cells[4].Colour = output.Red
		}
		t.Cells(cells...)
	}
	return t
}

// listenerTable is one listener, whole.
func listenerTable(l *rdmadv1.Listener) *output.Table {
	t := &output.Table{Columns: make([]output.Column, 2)}
	m := l.GetAdmission()
	for _, row := range [][2]string{
		{"name", l.GetName()},
		{"state", strings.TrimSuffix(word(l.GetState().String())+": "+l.GetFailure(), ": ")},
		{"provider", l.GetProvider()},
		{"address", l.GetAddress()},
		{"service", l.GetService()},
		{"rpcbind", onOff(l.GetRpcbind())},
		{"connections", fmt.Sprint(l.GetConnections())},
		{"max connections", orNoLimit(m.GetMaxConnections())},
		{"max connections per peer", orNoLimit(m.GetMaxConnectionsPerPeer())},
		{"allow", orWords(m.GetAllow(), "all")},
		{"deny", orWords(m.GetDeny(), "nobody")},
	} {
		t.Row(row[0], row[1])
	}
	changedRow(t, l.GetChanged())
	return t
}
