package cli

import (
	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newFleetHistory(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Print who changed what in the fleet, newest first",
		Long: `Prints the changes of the fleet, newest first: who changed what, through which node. WHO is
rdmad for changes by the controller: a rollout is done, a gate halted it, or its nodes have
taken the change back. etcd keeps the newest 1,000. The audit log of a node has the requests
that the node refused: rdmactl audit.`,
		Example: "  rdmactl fleet history --limit 5\n  rdmactl fleet history --limit 0 -o json",
	}
	limit := limitFlag(cmd, "changes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return showList(cmd.Context(), a, api.ListHistory, &rdmadv1.ListHistoryRequest{PageSize: mostOfPage}, *limit, fleetHistoryTable)
	}
	return cmd
}

func fleetHistoryTable(res *rdmadv1.ListHistoryResponse) *output.Table {
	return output.Things(res.GetEntries(), []output.Field[*rdmadv1.AuditEntry]{
		{Name: "TIME", Text: auditTime},
		{Name: "WHO", Min: 8, Text: (*rdmadv1.AuditEntry).GetActor},
		{Name: "FROM", Drop: 2, Text: (*rdmadv1.AuditEntry).GetOrigin},
		{Name: "NODE", Text: (*rdmadv1.AuditEntry).GetNode},
		{Name: "WHAT", Drop: 1, Text: auditAction},
		{Name: "CHANGE", Min: 20, Text: auditChange},
	})
}
