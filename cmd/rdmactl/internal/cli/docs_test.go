package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/internal/manual"
)

// TestEveryCommandIsDocumented: docs/rdmactl.md has each command under the
// words of its help, and each help has an example that the command line takes.
func TestEveryCommandIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/rdmactl.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if !cmd.Runnable() || cmd.Example == "" && cmd.HasSubCommands() {
			return // one that only holds others
		}
		use, _, _ := strings.Cut(cmd.UseLine(), " [flags]")
		commands["### `"+use+"`"] = true
		for line := range strings.Lines(cmd.Example) {
			if !strings.Contains(line, cmd.CommandPath()+" ") && strings.TrimSpace(line) != cmd.CommandPath() && !strings.Contains(line, "rdmactl --addr ") {
				t.Errorf("%s: %q is no example of it", cmd.CommandPath(), line)
			}
		}
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example, or no short help", cmd.CommandPath())
		}
	}
	visit(newRoot(&app{}))
	for line := range strings.Lines(string(page)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "### ") && !commands[line] {
			t.Errorf("docs/rdmactl.md has %s, which is no command", line)
		}
		delete(commands, line)
	}
	for heading := range commands {
		t.Errorf("docs/rdmactl.md doesn't have %s", heading)
	}
}

var update = flag.Bool("update", false, "write the manual page and the reference")

// sections are those of rdmactl(1) that are not about commands.
const sections = `.SH ENVIRONMENT
.TP
.B RDMACTL_ADDR
The address of the control plane, without \-\-addr and \-\-context.
.TP
.B RDMACTL_CONTEXT
The value of \-\-context, without RDMACTL_ADDR.
.TP
.B RDMACTL_CONFIG
The file of contexts.
.TP
.BR RDMACTL_TLS_CERT ", " RDMACTL_TLS_KEY ", " RDMACTL_TLS_CA ", " RDMACTL_TLS_SERVER_NAME
The values of the flags for TLS. A context does not use them.
.TP
.B NO_COLOR
No colours.
.SH FILES
.TP
.I ~/.config/rdmactl/config.yaml
The contexts.
.TP
.I /run/rdmad/control.sock
The control socket of the packaged rdmad.
.SH EXIT STATUS
%s.SH SEE ALSO
.BR rdmad (8),
.BR rdmad.yaml (5)
`

// reference is the page of the documentation, before the commands.
const reference = `# rdmactl reference

All commands and flags of rdmactl. ` + "`make generate`" + ` writes this page and rdmactl(1) from the commands themselves. [rdmactl.md](rdmactl.md) has
examples with their output.

## Exit codes

| code | meaning | details |
|---|---|---|
%s
%s`

// TestReference: the manual page and docs/rdmactl-reference.md are those of the
// commands. With -update they are written.
func TestReference(t *testing.T) {
	for _, name := range []string{"CERT", "KEY", "CA", "SERVER_NAME"} {
		t.Setenv("RDMACTL_TLS_"+name, "")
	}
	var status, table strings.Builder
	for _, c := range exitCodes {
		fmt.Fprintf(&status, ".TP\n.B %d\n%s.\n%s\n", c.code, c.short, strings.NewReplacer("`", "", "-", `\-`).Replace(c.detail))
		fmt.Fprintf(&table, "| %d | %s | %s |\n", c.code, c.short, c.detail)
	}
	p := manual.Program{Root: newRoot(&app{}), Section: 1, Sections: fmt.Sprintf(sections, status.String())}
	manual.Check(t, "../../../../configs/debian/man/rdmactl.1", p.Man(), *update)
	manual.Check(t, "../../../../docs/rdmactl-reference.md", fmt.Sprintf(reference, table.String(), p.Markdown()), *update)
}
