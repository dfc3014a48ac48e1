package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/controlplane/audit"
)

func (o *options) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Work on the audit log without a running rdmad",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("audit needs a command: audit verify")
		},
	}
	cmd.AddCommand(o.auditVerifyCommand())
	return cmd
}

func (o *options) auditVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [--config FILE]",
		Short: "Check that nobody changed the audit log",
		Long: `verify reads the audit log in the state directory, ./rdmad.state without a
configuration, and checks that each entry follows the one before it. It changes
nothing, and works while rdmad runs. It cannot detect missing oldest files or
newest entries: compare the last entry and its hash with those that rdmad logged,
or that verify printed before.

Exit codes: 0 the log is as it was written, 1 it isn't, 2 it can't be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.load()
			if err != nil {
				return err
			}
			r, verifyErr := audit.Verify(c.State.Path)
			if verifyErr != nil && !errors.As(verifyErr, new(*audit.DamageError)) {
				return fmt.Errorf("audit log: %w", verifyErr)
			}
			if err := printAudit(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			if verifyErr != nil {
				return fmt.Errorf("audit log: %w", verifyErr)
			}
			return nil
		},
	}
	o.fileFlag(cmd)
	return cmd
}

// printAudit prints the result of a check of the audit log.
func printAudit(w io.Writer, r audit.Report) error {
	_, err := fmt.Fprintf(w, "entries checked: %d, files: %d\n", r.Entries, r.Files)
	if err == nil && r.Entries > 0 {
		_, err = fmt.Fprintf(w, "from entry %d to entry %d, whose hash is %s\n", r.First, r.Last, r.Hash)
	}
	for _, file := range r.SetAside {
		if err == nil {
			_, err = fmt.Fprintf(w, "set aside at a start because it was damaged: %s\n", file)
		}
	}
	return err
}
