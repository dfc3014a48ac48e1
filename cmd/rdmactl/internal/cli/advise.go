package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const adviseHelp = `Print the thresholds that would have saved RDMA operations and registrations, and
the command that sets them. The advice follows from the message sizes so far, on
the scope's connections that are up. --apply runs the command after a question;
--yes answers the question.

` + settingsHelp

func newSettingsAdvise(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise",
		Short: "Print thresholds that would have saved RDMA operations",
		Long:  adviseHelp,
		Example: `  rdmactl settings advise --scope listener/nfs
  rdmactl settings advise --apply --yes --confirm-within 5m`,
	}
	scope := a.scopeFlag(cmd)
	apply := cmd.Flags().Bool("apply", false, "set them")
	yes := cmd.Flags().Bool("yes", false, "with --apply: do not ask")
	var c changeFlags
	c.confirmFlag(cmd)
	c.commentFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"yes", "confirm-within", "comment"} {
			if cmd.Flags().Changed(name) && !*apply {
				return usagef("--%s needs --apply", name)
			}
		}
		if *apply && !*yes {
			if err := a.alone("--apply without --yes"); err != nil {
				return err
			}
		}
		if *apply && !*yes && !isTerminal(cmd.InOrStdin()) {
			return usagef("--apply needs a terminal for its question: add --yes")
		}
		res, err := ask(cmd.Context(), a, api.AdviseSettings, &rdmadv1.AdviseSettingsRequest{Scope: *scope})
		if err != nil {
			return err
		}
		if !*apply {
			return a.printer().Answer(res, func() *output.Table { return adviceTable(res, *scope) })
		}
		req := &rdmadv1.SetSettingsRequest{Scope: *scope, Settings: &rdmadv1.Settings{}, ConfirmWithin: c.window(cmd), Comment: c.comment}
		return a.applyAdvice(cmd.Context(), res, req, *yes, cmd.InOrStdin())
	}
	return cmd
}

// adviceTable shows each change and, at the end, the command for all.
func adviceTable(res *rdmadv1.AdviseSettingsResponse, scope string) *output.Table {
	looked := fmt.Sprintf("from %.0f calls on %d connections", res.GetCalls(), res.GetConnections())
	if len(res.GetAdvice()) == 0 {
		t := &output.Table{Columns: make([]output.Column, 1)}
		t.Row("nothing to advise, " + looked)
		return t
	}
	t := output.Things(res.GetAdvice(), []output.Field[*rdmadv1.Advice]{
		{Name: "SETTING", Text: func(a *rdmadv1.Advice) string { return strings.Join(a.GetAssignments(), " ") }},
		{Name: "OPERATIONS SAVED", Count: (*rdmadv1.Advice).GetRdmaOperationsSaved},
		{Name: "REGISTRATIONS SAVED", Count: (*rdmadv1.Advice).GetRegistrationsSaved},
		{Name: "MEMORY ADDED", Drop: 1, Count: (*rdmadv1.Advice).GetMemoryAdded},
		{Name: "IN FORCE", Cell: outcome[*rdmadv1.Advice]},
		{Name: "REASON", Min: 20, Text: (*rdmadv1.Advice).GetReason},
	})
	t.Next = &output.Table{Columns: make([]output.Column, 1), Whole: true}
	t.Next.Row(looked + ":")
	t.Next.Row("rdmactl " + strings.Join(adviceCommand(res, scope), " "))
	return t
}

// adviceCommand sets all that is advised.
func adviceCommand(res *rdmadv1.AdviseSettingsResponse, scope string) []string {
	command := []string{"settings", "set"}
	for _, a := range res.GetAdvice() {
		for _, one := range a.GetAssignments() { // two may advise the same
			if !slices.Contains(command, one) {
				command = append(command, one)
			}
		}
	}
	if scope != "global" {
		command = append(command, "--scope", scope)
	}
	return command
}

// applyAdvice sets all that is advised, when it may.
func (a *app) applyAdvice(ctx context.Context, res *rdmadv1.AdviseSettingsResponse, req *rdmadv1.SetSettingsRequest, yes bool, in io.Reader) error {
	if len(res.GetAdvice()) == 0 {
		return a.said(&rdmadv1.SetSettingsResponse{}, "nothing to advise, from %.0f calls on %d connections", res.GetCalls(), res.GetConnections())
	}
	for _, advice := range res.GetAdvice() {
		proto.Merge(req.Settings, advice.GetSettings())
	}
	if !yes {
		fmt.Fprintf(a.stderr, "rdmactl %s? [y/N] ", terminal.OneLine(strings.Join(adviceCommand(res, req.GetScope()), " ")))
		answer, err := bufio.NewReader(untilDone(ctx, in)).ReadString('\n')
		if err != nil && answer == "" {
			return fmt.Errorf("nothing changed: %w", interrupted(ctx, err))
		}
		if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
			return fmt.Errorf("nothing changed")
		}
	}
	return a.setSettings(ctx, req)
}
