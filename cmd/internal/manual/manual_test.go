package manual

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program is one with a command of two names, in a group of two names.
func program() *Program {
	run := func(*cobra.Command, []string) {}
	set := &cobra.Command{Use: "add NAME", Aliases: []string{"set"}, Short: "Add one", Long: "Add one.\n\n.hidden is\n- all\n\n  a \\ b", Example: "  tool group add x", Run: run}
	set.Flags().String("file", "a|b", "`FILE` to read")
	set.Flags().BoolP("yes", "y", false, "do not ask")
	group := &cobra.Command{Use: "group", Aliases: []string{"pack"}, Short: "Of things"}
	group.AddCommand(set)
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "tool does things."}
	root.PersistentFlags().Duration("timeout", 0, "how long")
	root.AddCommand(group, &cobra.Command{Use: "secret", Hidden: true, Run: run}, &cobra.Command{Use: "go", Short: "Go away", Run: run})
	return &Program{Root: root, Section: 1, Sections: ".SH FILES\n"}
}

// TestAliases: the other name of a command has all its groups.
func TestAliases(t *testing.T) {
	leaf := &cobra.Command{Use: "abort"}
	inner := &cobra.Command{Use: "rollouts", Aliases: []string{"rollout"}}
	outer := &cobra.Command{Use: "fleet"}
	root := &cobra.Command{Use: "tool"}
	root.AddCommand(outer)
	outer.AddCommand(inner)
	inner.AddCommand(leaf)
	if got := aliases(leaf); got != "tool fleet rollout abort" {
		t.Error(got)
	}
}

func TestMan(t *testing.T) {
	want := `.\" Written by make generate.
.TH TOOL 1
.SH NAME
tool \- do things
.SH SYNOPSIS
.B tool
.RI [ FLAG " ...] [" COMMAND " [" ARGUMENT " ...]]"
.SH DESCRIPTION
.PP
tool does things.
.SH OPTIONS
.TP
.B \-\-timeout duration
how long
.SH COMMANDS
.SS tool go
Go away.
.SS tool group add NAME
.PP
Add one.
.PP
\&.hidden is
\- all
.PP
.nf
  a \e b
.fi
.PP
Also: tool pack set
.TP
.B \-\-file FILE
FILE to read (default a|b)
.TP
.B \-y, \-\-yes
do not ask
.PP
.nf
  tool group add x
.fi
.SH FILES
`
	if got := program().Man(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestMarkdown(t *testing.T) {
	got := program().Markdown()
	for _, want := range []string{
		"## Flags of `tool`\n\n| flag | meaning |\n|---|---|\n| `--timeout duration` | how long |\n",
		"\n## `tool go`\n\nGo away.\n",
		"\n## `tool group add NAME`\n\n```text\nAdd one.\n",
		"Also: `tool pack set`\n",
		"| `--file FILE` | FILE to read (default a\\|b) |\n| `-y, --yes` | do not ask |\n",
		"```text\ntool group add x\n```\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") {
		t.Error("a hidden command is in it")
	}
}
