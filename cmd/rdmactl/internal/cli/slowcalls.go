package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/bench"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newSlowCalls(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "slow-calls",
		Short: "Print the latest slow calls, and where their time went",
		Long: `Print the latest 256 calls of all listeners, connectors and services on TCP that
took as long as slow_call in rdmad's configuration file, or longer; the newest
first. Without slow_call, rdmad measures no calls.

RECEIVE is the time until the whole call had arrived and its service started,
READ the time of RDMA Reads, SERVICE the time in the service. UPSTREAM is the part
of SERVICE for which rdmad waited for the server behind forward or a connector.
POST is the time until the reply was in the send queue, SEND the time until it had
left.`,
		Example: "  rdmactl slow-calls",
		RunE: func(cmd *cobra.Command, _ []string) error {
			res, err := ask(cmd.Context(), a, api.ListSlowCalls, &rdmadv1.ListSlowCallsRequest{})
			if err != nil {
				return err
			}
			p := a.printer()
			if err := p.Answer(res, func() *output.Table { return slowCallsTable(res.GetCalls()) }); err != nil {
				return err
			}
			if res.GetSlowCall().AsDuration() == 0 {
				return p.Note("no calls are measured: set slow_call in rdmad's configuration file, such as slow_call: 500ms")
			}
			return p.Note("%s slow calls since rdmad started; slow_call is %v now", output.Count(res.GetTotal()), res.GetSlowCall().AsDuration())
		},
	}
}

func slowCallsTable(all []*rdmadv1.SlowCall) *output.Table {
	t := &output.Table{Columns: []output.Column{
		{Name: "ARRIVED"},
		{Name: "CONNECTION", Drop: 2},
		{Name: "LISTENER", Drop: 3},
		{Name: "SERVER", Drop: 4},
		{Name: "PEER"},
		{Name: "CALL"},
		{Name: "TOOK", Right: true},
		{Name: "RECEIVE", Right: true},
		{Name: "READ", Right: true},
		{Name: "SERVICE", Right: true},
		{Name: "UPSTREAM", Right: true, Drop: 5},
		{Name: "POST", Right: true},
		{Name: "SEND", Right: true},
		{Name: "LOST", Drop: 1},
	}}
	for _, c := range all {
		t.Row(clock(c.GetArrived()), c.GetConnectionId(), cmp.Or(c.GetListener(), "tcp"), c.GetServer(), c.GetPeer(), slowCallName(c.GetRpc()),
			took(c.GetTook()), took(c.GetReceive()), took(c.GetRdmaRead()), took(c.GetService()), took(c.GetUpstream()), took(c.GetPost()), took(c.GetCompletion()),
			either(c.GetLost(), "yes", ""))
	}
	return t
}

// slowCallName is the name of the procedure, or its numbers.
func slowCallName(h *rdmadv1.RpcHeader) string {
	return cmp.Or(h.GetName(), fmt.Sprintf("program %d version %d procedure %d", h.GetProgram(), h.GetVersion(), h.GetProcedure()))
}

func took(d *durationpb.Duration) string { return micros(bench.Micros(d.AsDuration())) }
