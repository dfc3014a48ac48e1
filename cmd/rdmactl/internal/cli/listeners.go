package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newListeners(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "listeners", Short: "List, add, change and remove listeners"},
		newListenersList(a), newListenersAdd(a), newListenersUpdate(a), newUnset("listener", a.completeListener, &rdmadv1.UpdateListenerRequest{}, a.updateListener), newListenersRemove(a))
}

func newListenersList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "All listeners",
		Long:    "List all listeners. JSON and YAML also have access lists and limits.",
		Example: "  rdmactl listeners list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showList(cmd.Context(), a, api.ListListeners, &rdmadv1.ListListenersRequest{}, 0, listenersTable)
		},
	}
}

func listenersTable(res *rdmadv1.ListListenersResponse) *output.Table {
	return output.Things(res.GetListeners(), []output.Field[*rdmadv1.Listener]{
		{Name: "NAME", Min: 8, Text: (*rdmadv1.Listener).GetName},
		{Name: "PROVIDER", Drop: 3, Text: (*rdmadv1.Listener).GetProvider},
		{Name: "ADDRESS", Text: (*rdmadv1.Listener).GetAddress},
		{Name: "SERVICE", Min: 8, Text: (*rdmadv1.Listener).GetService},
		{Name: "STATE", Cell: func(l *rdmadv1.Listener) output.Cell { return endpointState(l.GetState()) }},
		{Name: "CONNECTIONS", Number: (*rdmadv1.Listener).GetConnections},
		{Name: "ACCEPTED", Drop: 1, Count: (*rdmadv1.Listener).GetAccepted},
		{Name: "REFUSED", Drop: 1, Count: (*rdmadv1.Listener).GetRefused},
		{Name: "FROM", Drop: 2, Text: from[*rdmadv1.Listener]},
		{Name: "SINCE", Drop: 4, Text: since[*rdmadv1.Listener]},
		{Name: "", Min: 10, Text: (*rdmadv1.Listener).GetFailure},
	})
}

// endpointState is the state of a listener or connector.
func endpointState(s fmt.Stringer) output.Cell {
	return output.Cell{Text: word(s.String()), Colour: endpointColours[s.String()]}
}

var endpointColours = map[string]output.Colour{"DRAINING": output.Yellow, "FAILED": output.Red, "DEGRADED": output.Red}

// since writes the time since when something is there.
func since[T interface{ GetSince() *timestamppb.Timestamp }](of T) string {
	return clock(of.GetSince())
}

// endpoint is a listener or a connector.
type endpoint interface {
	GetName() string
	GetFailure() string
	GetAdmission() *rdmadv1.Admission
	GetChanged() []string
}

// endpointTable is one listener or connector, whole. own are the rows that the other does not
// have.
func endpointTable(e endpoint, state fmt.Stringer, own ...[2]string) *output.Table {
	m, t := e.GetAdmission(), output.Pairs()
	t.Row("name", e.GetName())
	t.Row("state", strings.TrimSuffix(word(state.String())+": "+e.GetFailure(), ": "))
	for _, row := range own {
		t.Row(row[0], row[1])
	}
	t.Row("max connections", orNoLimit(m.GetMaxConnections()))
	t.Row("max connections per peer", orNoLimit(m.GetMaxConnectionsPerPeer()))
	t.Row("max handshakes", cmp.Or(number(m.GetMaxHandshakes()), "64"))
	t.Row("idle", either(m.GetIdle().AsDuration() == 0, "as in rdmactl limits", "closed after "+m.GetIdle().AsDuration().String()))
	t.Row("allow", orWords(m.GetAllow(), "all"))
	t.Row("deny", orWords(m.GetDeny(), "nobody"))
	changedRow(t, e.GetChanged())
	return t
}

func listenerTable[R interface{ GetListener() *rdmadv1.Listener }](res R) *output.Table {
	l := res.GetListener()
	return endpointTable(l, l.GetState(), [2]string{"provider", l.GetProvider()}, [2]string{"address", l.GetAddress()},
		[2]string{"service", l.GetService()}, [2]string{"rpcbind", onOff(l.GetRpcbind())}, [2]string{"connections", fmt.Sprint(l.GetConnections())})
}
