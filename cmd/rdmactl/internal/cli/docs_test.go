package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// TestManualPage: rdmactl(1) has the commands and the flags for all of them.
func TestManualPage(t *testing.T) {
	text, err := os.ReadFile("../../../../configs/debian/man/rdmactl.1")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), `\-`, "-")
	_, commands, _ := strings.Cut(page, "\n.SH COMMANDS\n")
	commands, _, _ = strings.Cut(commands, "\n.SH ")
	words := strings.FieldsFunc(commands, func(r rune) bool { return strings.ContainsRune(" \n\",", r) })
	root := newRoot(&app{})
	for _, c := range root.Commands() {
		if !slices.Contains(words, c.Name()) {
			t.Errorf("rdmactl(1) doesn't have %s", c.Name())
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(page, "--"+f.Name) {
			t.Errorf("rdmactl(1) doesn't have --%s", f.Name)
		}
	})
}
